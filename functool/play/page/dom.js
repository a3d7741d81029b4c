// Elements and requests. Texts of tools reach the page through here, as text and never as HTML.

const PLAIN = new Set(["class", "id", "type", "for", "role", "title", "rows", "min", "max", "value",
  "hidden", "disabled", "open", "name", "tabindex", "step", "controls", "alt", "scope", "selected",
  "checked", "placeholder", "spellcheck", "autocomplete", "download"]);

// Make an element. `on...` are listeners, `data` an object; links and sources are set by `media` only.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("aria-")) element.setAttribute(name, value);
    else if (!PLAIN.has(name)) throw new Error(`no attribute ${name}`);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

// Make an image or a sound from bytes. A type that the page does not know is not shown.
const SHOWN = /^(image\/(png|jpeg|gif|webp|bmp|avif)|audio\/(wav|x-wav|mpeg|ogg|webm|mp4|aac|flac))$/;

export function media(tag, mediaType, base64) {
  if (!SHOWN.test(mediaType) || !base64) return null;
  const element = document.createElement(tag);
  element.src = `data:${mediaType};base64,${base64}`;
  return element;
}

export async function post(path, body) {
  const response = await fetch(path, request(body));
  if (!response.ok) throw await refusal(response);
  return parsed(await response.text());
}

// Return the error that the server answered: JSON, or the text for a page without a cookie.
async function refusal(response) {
  const text = await response.text();
  try { return new Error(parsed(text).error); } catch { return new Error(text.slice(0, 500) || `status ${response.status}`); }
}

// Yield the lines of JSON with which the server answers, as they come.
export async function* lines(path, body, signal) {
  const response = await fetch(path, { ...request(body), signal });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield parsed(part);
  }
}

function request(body) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

// Numbers of JavaScript have about sixteen digits, and an id may have more. A longer whole number is
// read as a BigInt, and written with all of its digits.
BigInt.prototype.toJSON = function () { return JSON.rawJSON(String(this)); };

export function parsed(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text); // A large text takes ten times longer below.
  return JSON.parse(text, (name, value, context) => isLong(value) && /^-?\d+$/.test(context?.source) ? BigInt(context.source) : value);
}

// Read a text whose numbers are written again as they stand there, such as 1.0 and those of many digits.
export function exact(text) {
  return JSON.parse(text, (name, value, context) => typeof value === "number" && context?.source ? JSON.rawJSON(context.source) : value);
}

export function isLong(value) {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

// Write out what a person could not see, or would see in another order.
export function ascii(text) {
  return text.replace(/[^\n -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function copying(label, text) {
  const button = h("button", { type: "button", class: "small", "aria-label": `Copy ${label}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      say(`${label} is copied`);
    } catch {
      say(`The browser did not let ${label} be copied: select it`);
    }
  });
  return button;
}

export function when(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

// How long something took, from milliseconds.
export function took(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}
