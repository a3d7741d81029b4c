// The form of a tool: json-editor over the server's safe copy of the schema.

import { exact, h, isLong, parsed, say } from "/files/dom.js";

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#123;": "{", "&#125;": "}" };
const ENTITY = /&(?:lt|gt|amp|quot|#x27|#123|#125);/g;

// Without this the library parses texts as HTML to drop their tags, and those of values too, which
// would send something else than the person wrote.
const asText = (text) => String(text).replace(ENTITY, (entity) => ENTITIES[entity]);
window.JSONEditor.AbstractEditor.prototype.cleanText = asText;
window.JSONEditor.AbstractEditor.prototype.purify = (value) => value;
window.JSONEditor.AbstractTheme.prototype.cleanText = asText;

// A whole number that JavaScript's numbers cannot hold is a BigInt, with all the digits as typed.
const { integer, number } = window.JSONEditor.defaults.editors;
for (const { prototype } of [integer, number]) {
  const { getValue } = prototype;
  prototype.getValue = function () {
    const value = getValue.call(this);
    return isLong(value) && JSON.rawJSON && /^\s*[-+]?\d+\s*$/.test(this.value) ? BigInt(this.value) : value;
  };
}

// Unions ask the library's validator which member a value fits. Its class is reached through an object.
let checksLong = false;
function checkLong(validator) {
  if (checksLong) return;
  checksLong = true;
  const { _checkType } = validator;
  validator._checkType = function (type, value) {
    return _checkType.call(this, type, typeof value === "bigint" ? 1 : value);
  };
}

// Return what the person wrote, with what has changed in the form since it showed that. The form does not
// show all that was written: neither names that the schema does not know, nor what is too deep for it.
function merged(written, seen, value) {
  if (same(seen, value)) return written;
  if ([written, seen, value].every(Array.isArray) && written.length === seen.length) {
    return value.map((each, place) => {
      const from = same(seen[place], each) ? place : seen.findIndex((other) => same(other, each));
      if (from >= 0) return written[from];
      return value.length === seen.length ? merged(written[place], seen[place], each) : each;
    });
  }
  if (![written, seen, value].every(isGroup)) return value;
  const names = [...new Set([...Object.keys(written), ...Object.keys(value)])];
  return Object.fromEntries(names.flatMap((name) => {
    if (!Object.hasOwn(value, name)) return Object.hasOwn(seen, name) ? [] : [[name, written[name]]];
    const known = Object.hasOwn(written, name) && Object.hasOwn(seen, name);
    return [[name, known ? merged(written[name], seen[name], value[name]) : value[name]]];
  }));
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isGroup(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !JSON.isRawJSON?.(value);
}

export class Form {
  // `changed(value)` is called when the person changes the form, `failed()` if the schema has no form.
  constructor(holder, schema, changed, failed) {
    this.holder = holder;
    this.changed = changed;
    this.silent = true;
    this.editor = new window.JSONEditor(holder, {
      schema, theme: "html", iconlib: null, ajax: false, show_errors: "never",
      disable_edit_json: true, disable_properties: true, disable_collapse: true,
      required_by_default: false, show_opt_in: true, prompt_before_delete: false,
      remove_empty_properties: false, use_default_values: true, max_depth: 12,
    });
    this.watcher = new MutationObserver(() => this.tidy());
    this.editor.on("ready", () => {
      checkLong(Object.getPrototypeOf(this.editor.validator));
      this.tidy();
      this.silent = false;
      this.written = this.seen = this.value();
      changed(this.written);
    });
    this.editor.on("change", () => this.tell());
    this.editor.promise.catch(() => { this.watcher.disconnect(); failed(); });
  }

  // A copy of the value that the form shows.
  value() {
    return parsed(JSON.stringify(this.editor.getValue()) ?? "null");
  }

  tell() {
    if (this.silent) return;
    const value = this.value();
    if (same(value, this.seen)) return;
    this.written = merged(this.written, this.seen, value);
    this.seen = value;
    this.changed(this.written);
  }

  // Show the object of a text that was written as JSON beside the form.
  show(text) {
    const value = parsed(text);
    this.written = exact(text);
    this.silent = true;
    const root = this.editor.getEditor("root");
    for (const [name, each] of Object.entries(root.editors || {})) {
      if (name in value && each.deactivate && !each.active && root.activateEditor) each.activate();
      if (!(name in value) && each.deactivate && !root.isRequired?.(each) && each.optInCheckbox) each.deactivate();
      if (each.optInCheckbox) each.optInCheckbox.checked = each.active !== false && name in value;
    }
    this.editor.setValue(value);
    this.seen = this.value();
    // What the person changed meanwhile is told afterwards.
    setTimeout(() => { this.silent = false; this.tell(); }, 50);
  }

  destroy() {
    this.watcher.disconnect();
    this.editor.destroy();
  }

  // Put each problem at the field that caused it. Return those that have no field.
  problems(found) {
    for (const old of this.holder.querySelectorAll(".problem")) old.remove();
    for (const old of this.holder.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
    return found.filter((problem, place) => {
      const words = problem.path.match(/[^.[\]]+/g) || [];
      let place_ = null;
      for (let n = words.length; n > 0 && !place_; n -= 1) {
        place_ = this.holder.querySelector(`[data-schemapath="${CSS.escape(["root", ...words.slice(0, n)].join("."))}"]`);
      }
      if (!place_) return true;
      const id = `problem-${place}`;
      const choices = problem.choices.length ? `: ${problem.choices.join(", ")}` : "";
      place_.append(h("p", { class: "problem", id }, `${problem.path}: expected ${problem.expected}${choices}`));
      const input = place_.querySelector("input:not([type=checkbox]), select, textarea");
      input?.setAttribute("aria-invalid", "true");
      input?.setAttribute("aria-describedby", id);
      return false;
    });
  }

  // The library leaves texts escaped and controls unnamed: mend both, whenever it writes.
  tidy() {
    this.watcher.disconnect();
    const walker = document.createTreeWalker(this.holder, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.parentElement.tagName !== "TEXTAREA" && ENTITY.test(node.nodeValue)) {
        node.nodeValue = node.nodeValue.replace(ENTITY, (entity) => ENTITIES[entity]);
      }
    }
    for (const field of this.holder.querySelectorAll("input, select, textarea")) this.name(field);
    for (const area of this.holder.querySelectorAll("textarea")) area.rows = 1;
    for (const button of this.holder.querySelectorAll("button")) {
      button.removeAttribute("title");
      if (!button.textContent.trim()) button.setAttribute("aria-label", button.className || "button");
    }
    // Headings inside of a form break the outline of the page.
    for (const heading of this.holder.querySelectorAll("h1,h2,h3,h4,h5,h6")) heading.setAttribute("role", "presentation");
    this.files();
    this.watcher.observe(this.holder, { childList: true, subtree: true });
  }

  name(field) {
    const path = (field.closest("[data-schemapath]")?.dataset.schemapath || "root").replace(/^root\.?/, "");
    if (field.type === "checkbox" && field.classList.contains("json-editor-opt-in")) {
      field.setAttribute("aria-label", `Send ${path.slice(0, 100)}`);
    } else if (!field.labels?.length && !field.getAttribute("aria-label")) {
      field.setAttribute("aria-label", path ? `Value of ${path.slice(0, 100)}` : "Value");
    }
  }

  // A value of bytes may be chosen as a file.
  files() {
    for (const [path, each] of Object.entries(this.editor.editors || {})) {
      const kind = each?.schema?.options?.functool;
      if (kind === "json" || !kind || !each.input || each.container?.querySelector("input[type=file]")) continue;
      const pick = h("input", { type: "file", "aria-label": `File for ${path.replace(/^root\.?/, "")}` });
      pick.addEventListener("change", async () => {
        if (!pick.files.length) return;
        const bytes = new Uint8Array(await pick.files[0].arrayBuffer());
        try { each.setValue(encoded(bytes, kind)); } catch { say("This file is no UTF-8 text, and the tool takes no other"); return; }
        each.onChange(true);
      });
      each.input.after(pick);
    }
  }
}

function encoded(bytes, kind) {
  if (kind === "text") return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  const base64 = btoa(text);
  return kind === "base64url" ? base64.replaceAll("+", "-").replaceAll("/", "_") : base64;
}
