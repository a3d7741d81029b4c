// A result: texts, tables, trees, images and sounds. Large ones are opened piece by piece.

import { copying, h, media, parsed, took } from "/files/dom.js";

const ROWS = 200;
const CHILDREN = 100;
const SHORT = 20000;

export function draw(holder, result) {
  const title = result.error ? `Failed: ${result.error.type}` : "Result";
  const parts = result.error ? [text(result.error.message, result.error.message.length)] : [];
  for (const part of result.parts) {
    if (!(result.error && part.type === "text" && part.text === result.error.message)) parts.push(shown(part));
  }
  if (!parts.length) parts.push(h("p", { class: "quiet" }, "The result is empty."));
  const metadata = Object.keys(result.metadata || {}).length
    ? h("details", { class: "metadata" }, h("summary", {}, "What the host knows"), tree(result.metadata, "metadata", true))
    : null;
  holder.replaceChildren(
    h("h3", { class: result.error ? "failed" : "" }, title, " ", h("span", { class: "quiet" }, took(result.ms))),
    ...parts, ...(metadata ? [metadata] : []));
}

function shown(part) {
  if (part.type === "text") return text(part.text, part.size);
  const told = `${part.type} · ${part.media_type} · ${part.size.toLocaleString()} bytes${part.size && !part.base64 ? ", too large to be shown" : ""}${part.name ? ` · ${part.name}` : ""}`;
  const element = part.type === "image" ? media("img", part.media_type, part.base64)
    : part.type === "audio" ? media("audio", part.media_type, part.base64) : null;
  if (element?.tagName === "IMG") element.alt = "Image that the tool returned";
  if (element?.tagName === "AUDIO") { element.controls = true; element.setAttribute("aria-label", "Sound that the tool returned"); }
  return h("figure", {}, ...(element ? [element] : []), h("figcaption", {}, told, part.uri ? h("code", {}, ` ${part.uri}`) : null));
}

// A text, as a table or a tree where it is JSON; `name` says what it is.
export function text(value, size, name = "result") {
  const found = structure(value);
  if (found === undefined) return plain(value, size, name);
  const raw = h("details", {}, h("summary", {}, "As text"), plain(value, size, name));
  if (isTable(found)) return h("div", {}, table(found, name), raw);
  return h("div", {}, tree(found, name, true), raw);
}

function plain(value, size, name) {
  const box = h("pre", { tabindex: "0", "aria-label": `Text of the ${name}` }, value.slice(0, SHORT));
  if (value.length > SHORT) {
    const more = h("button", { type: "button", class: "small" }, `Show all that was sent here (${size.toLocaleString()} characters in the result)`);
    more.addEventListener("click", () => { box.textContent = value; more.remove(); });
    return h("div", {}, box, more);
  }
  return h("div", { class: "with-copy" }, box, copying(`the ${name}`, () => value));
}

function structure(value) {
  if (!/^\s*[[{]/.test(value)) return undefined;
  try { return parsed(value); } catch { return undefined; }
}

function isTable(value) {
  return Array.isArray(value) && value.length > 0
    && value.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))
    && new Set(value.slice(0, ROWS).flatMap((row) => Object.keys(row))).size <= 30;
}

function table(rows, name) {
  const names = [...new Set(rows.slice(0, ROWS).flatMap((row) => Object.keys(row)))];
  const cell = (value) => value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const body = rows.slice(0, ROWS).map((row) => h("tr", {}, names.map((name) => h("td", {}, cell(row[name]).slice(0, 1000)))));
  const note = rows.length > ROWS ? h("p", { class: "quiet" }, `The first ${ROWS} of ${rows.length.toLocaleString()} rows.`) : null;
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of the ${name}` },
    h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name.slice(0, 200))))), h("tbody", {}, body)), note);
}

// Each level is made when it is opened, so that a deep or wide value costs nothing.
export function tree(value, name, open = false) {
  if (value === null || typeof value !== "object") {
    return h("div", { class: "leaf" }, h("span", { class: "key" }, `${String(name).slice(0, 200)}: `), h("span", { class: typeof value }, JSON.stringify(value).slice(0, 5000)));
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const node = h("details", { class: "tree" }, h("summary", {}, h("span", { class: "key" }, String(name).slice(0, 200)), ` ${size}`));
  let made = false;
  const make = () => {
    if (made) return;
    made = true;
    node.append(...entries.slice(0, CHILDREN).map(([key, child]) => tree(child, key)));
    if (entries.length > CHILDREN) node.append(h("p", { class: "quiet" }, `and ${entries.length - CHILDREN} more`));
  };
  node.addEventListener("toggle", () => node.open && make());
  if (open) { make(); node.open = true; }
  return node;
}
