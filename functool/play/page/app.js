// The page: the list of tools, the chosen one, and its calls.

import { grants, pending } from "/files/approvals.js";
import { copying, h, lines, parsed, post, say, took } from "/files/dom.js";
import { Form } from "/files/form.js";
import { history, journal } from "/files/history.js";
import { draw } from "/files/result.js";
import { Road } from "/files/road.js";

const DRAWN = 300;
const byId = (id) => document.getElementById(id);
let tools = [];
let dialects = [];
let chosen = null;
let asking = 0;
let asked = new Set();

window.history.replaceState(null, "", "/");

async function start() {
  byId("fresh").addEventListener("click", async () => { await post("/api/fresh", {}); say("A new conversation has begun"); });
  const found = await post("/api/tools", {});
  ({ tools, dialects } = found);
  byId("target").textContent = found.target;
  byId("journal-part").hidden = !found.journal;
  byId("search").addEventListener("input", list);
  list();
  listen();
}

function list() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = tools.filter((tool) => {
    const text = [tool.name, tool.description, ...tool.tags, ...tool.badges].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  byId("count").textContent = found.length === 1 ? "1 tool" : `${found.length} tools${found.length > DRAWN ? `, the first ${DRAWN} shown` : ""}`;
  byId("tools").replaceChildren(...found.slice(0, DRAWN).map((tool) => h("li", {},
    h("button", { type: "button", class: "tool", "aria-current": chosen?.tool.name === tool.name ? "true" : "false", onclick: () => choose(tool.name) },
      h("span", { class: "name" }, tool.display_name.slice(0, 100)),
      h("span", { class: "brief" }, tool.description.split("\n")[0].slice(0, 140)), badges(tool)))));
}

function badges(tool) {
  return h("span", { class: "badges" },
    tool.badges.map((badge) => h("span", { class: "badge", data: { badge } }, badge)), tool.tags.map((tag) => h("span", { class: "badge tag" }, tag)));
}

async function choose(name, text = null) {
  let tool;
  const mine = asking += 1;
  try { tool = await post("/api/tool", { name }); } catch (error) { say(error.message); return; }
  if (mine !== asking) return; // Another one was chosen meanwhile.
  chosen?.form?.destroy();
  const parts = { tool, form: null, running: null, drawn: null };
  chosen = parts;
  list();
  parts.raw = h("textarea", { id: "raw", rows: 6, spellcheck: "false", "aria-describedby": "raw-problem" });
  parts.rawProblem = h("p", { id: "raw-problem", class: "problem", role: "alert" });
  parts.call = h("button", { type: "button", id: "call", class: "go" }, "Call");
  parts.cancel = h("button", { type: "button", class: "stop", hidden: true }, "Cancel");
  parts.road = h("div", { id: "road" });
  parts.result = h("div", { id: "result", "aria-live": "polite" });
  parts.spelling = h("div", { id: "spelling" });
  const holder = h("div", { id: "form" });
  byId("tool").replaceChildren(
    h("h2", {}, tool.display_name), badges(tool), h("p", { class: "description" }, tool.description),
    h("div", { class: "inputs" },
      h("section", { "aria-label": "Form" }, holder),
      h("section", { "aria-label": "Arguments as JSON" }, h("label", { for: "raw" }, "Arguments as JSON"), parts.raw, parts.rawProblem)),
    h("div", { class: "row" }, parts.call, parts.cancel), parts.road, parts.result, parts.spelling, definitions(tool));
  parts.call.addEventListener("click", () => run(parts));
  parts.cancel.addEventListener("click", () => parts.running?.abort());
  for (const each of [parts.raw, holder]) each.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.target.dispatchEvent(new Event("change", { bubbles: true })); // A field tells its value when it is left.
    run(parts);
  });
  parts.raw.addEventListener("input", () => typed(parts));
  const fixed = tool.form.type === "object" && tool.form.additionalProperties === false;
  if (fixed && !Object.keys(tool.form.properties || {}).length) {
    holder.append(h("p", { class: "quiet" }, "This tool names no arguments."));
    parts.raw.value = text ?? "{}";
  } else {
    const changed = (value) => { parts.raw.value = JSON.stringify(value, null, 2); parts.rawProblem.textContent = ""; };
    const failed = () => {
      parts.form = null;
      holder.replaceChildren(h("p", { class: "quiet" }, "This schema has no form. Write the arguments as JSON."));
      parts.raw.value ||= text ?? "{}";
    };
    try { parts.form = new Form(holder, tool.form, changed, failed); } catch (error) { failed(); }
  }
  if (text !== null) {
    parts.raw.value = text;
    if (parts.form) parts.form.editor.on("ready", () => { parts.raw.value = text; typed(parts); });
  }
  byId("tool").focus({ preventScroll: true });
}

function typed(parts) {
  let value;
  try { value = parsed(parts.raw.value); } catch (error) { parts.rawProblem.textContent = `Not JSON yet: ${error.message}`; return; }
  parts.rawProblem.textContent = "";
  if (value !== null && typeof value === "object" && !Array.isArray(value)) parts.form?.show(parts.raw.value);
  else parts.rawProblem.textContent = "The arguments are one JSON object";
}

async function run(parts) {
  if (parts.running) return;
  parts.form?.tell(); // The library tells of a change a moment later.
  parts.running = new AbortController();
  parts.call.disabled = true;
  parts.cancel.hidden = false;
  parts.result.replaceChildren();
  parts.form?.problems([]);
  const road = parts.drawn = new Road(parts.road, parts.tool.guardrails);
  road.waiting(asked);
  say(`${parts.tool.display_name.slice(0, 100)} runs`);
  try {
    for await (const message of lines("/api/call", { name: parts.tool.name, text: parts.raw.value }, parts.running.signal)) {
      if (message.kind === "step") road.step(message);
      else if (message.kind === "progress") road.progress(message);
      else if (message.kind === "event") road.event(message);
      else if (message.kind === "inner") road.inner.tell(message);
      else if (message.kind === "call") { road.id = message.id; spell(parts, message.spelling); }
      else if (message.kind === "problems") {
        const rest = parts.form ? parts.form.problems(message.problems) : message.problems;
        parts.rawProblem.textContent = rest.map((each) => `${each.path || "The arguments"}: ${each.expected}`).join("; ");
      } else if (message.kind === "result") {
        road.inner.known(message.metadata?.calls);
        draw(parts.result, message);
        say(message.error ? `Failed: ${message.error.type}` : `Done in ${took(message.ms)}`);
      }
    }
  } catch (error) {
    say(error.name === "AbortError" ? "The call was cancelled" : error.message);
  } finally {
    road.end();
    parts.running = null;
    parts.call.disabled = false;
    parts.cancel.hidden = true;
  }
}

function spell(parts, spelling) {
  if (!spelling) { parts.spelling.replaceChildren(); return; }
  const box = (label, text) => h("div", { class: "with-copy" }, h("h4", {}, label), h("pre", { tabindex: "0", "aria-label": label }, text), copying(label, () => text));
  parts.spelling.replaceChildren(h("details", {}, h("summary", {}, "The same call in Python and on the command line"),
    box("Python", spelling.python), box("Command line", spelling.cli)));
}

function definitions(tool) {
  const dialect = h("select", { "aria-label": "Dialect" }, dialects.map((name) => h("option", { value: name }, name)));
  const strict = h("input", { type: "checkbox" });
  const box = h("pre", { tabindex: "0", id: "definition", "aria-label": "Definition" });
  const losses = h("div", { id: "losses" });
  const details = h("details", { id: "definitions" }, h("summary", {}, "Definition for each provider"),
    h("div", { class: "row" }, h("label", {}, "Dialect ", dialect), h("label", { class: "check" }, strict, " strict")),
    losses, h("div", { class: "with-copy" }, box, copying("the definition", () => box.textContent)));
  let asked = 0;
  const show = async () => {
    if (!details.open) return;
    const mine = asked += 1;
    try {
      const found = await post("/api/definition", { name: tool.name, dialect: dialect.value, strict: strict.checked });
      if (mine !== asked) return; // Another one was chosen meanwhile.
      box.textContent = found.definition;
      const lost = found.error ? [found.error] : found.losses;
      losses.replaceChildren(lost.length ? h("ul", {}, lost.map((loss) => h("li", {}, loss))) : h("p", { class: "quiet" }, "Nothing is lost."));
    } catch (error) { losses.replaceChildren(h("p", { class: "problem" }, error.message)); }
  };
  for (const each of [dialect, strict]) each.addEventListener("change", show);
  details.addEventListener("toggle", show);
  return details;
}

function listen() {
  const source = new EventSource("/api/live");
  const replay = async (which) => {
    try {
      const found = await post("/api/replayed", which);
      await choose(found.tool, found.text);
    } catch (error) { say(error.message); }
  };
  source.addEventListener("message", (event) => {
    const message = parsed(event.data);
    if (message.kind === "pending") {
      pending(message.pending);
      asked = new Set(message.pending.map((each) => each.call_id));
      chosen?.drawn?.waiting(asked);
    }
    else if (message.kind === "grants") grants(message.grants);
    else if (message.kind === "history") history(message.history, replay);
    else if (message.kind === "entries") journal(message.entries, replay);
  });
  source.addEventListener("error", () => say("The playground does not answer. Is it still running? If it was started again, open the address that it printed."));
}

start().catch((error) => say(error.message));
