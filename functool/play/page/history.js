// Calls that were made here, and those of a journal.

import { h, post, say, took, when } from "/files/dom.js";

// What each row was drawn from.
const drawn = new WeakMap();

// Draw a list again. A row that has not changed stays in its place, with its focus and what a person writes in it.
function redraw(holder, entries, made, words) {
  if (!entries.length) { holder.replaceChildren(h("p", { class: "quiet" }, words)); return; }
  if (!holder.querySelector("ol")) holder.replaceChildren(h("ol", { class: "calls" }));
  const list = holder.querySelector("ol");
  const before = new Map([...list.children].map((row) => [drawn.get(row), row]));
  const rows = entries.map((entry) => {
    const text = JSON.stringify(entry);
    const row = before.get(text) || made(entry);
    drawn.set(row, text);
    return row;
  });
  for (const row of before.values()) if (!rows.includes(row)) row.remove();
  rows.forEach((row, place) => { if (list.children[place] !== row) list.insertBefore(row, list.children[place] || null); });
}

export function history(entries, replay) {
  redraw(document.getElementById("history"), entries.slice(0, 50), (entry) => h("li", { data: { outcome: entry.outcome } },
    h("span", { class: "who" }, entry.tool.slice(0, 200)), " ",
    h("span", { class: "did" }, entry.outcome), " ",
    h("span", { class: "quiet" }, `${entry.ms === null ? "" : `${took(entry.ms)}, `}${when(entry.at)}`), " ",
    h("code", { class: "brief" }, entry.text),
    h("button", { type: "button", class: "small", "aria-label": `Replay ${entry.tool.slice(0, 100)}`, onclick: () => replay({ id: entry.id }) }, "Replay")), "No calls yet.");
}

export function journal(entries, replay) {
  redraw(document.getElementById("journal"), entries, (entry) => h("li", { data: { outcome: entry.state } },
    h("span", { class: "who" }, entry.tool), " ", h("span", { class: "did" }, entry.state), " ",
    h("span", { class: "quiet" }, `${entry.run}, ${when(entry.at)}`), " ", h("code", { class: "brief" }, entry.text.slice(0, 200)),
    entry.result ? h("p", { class: "brief" }, entry.result.slice(0, 300)) : null,
    entry.state === "unknown" ? settling(entry) : h("button", { type: "button", class: "small", "aria-label": `Replay ${entry.tool} of the journal`, onclick: () => replay({ key: entry.key }) }, "Replay")), "The journal is empty.");
}

// Nobody knows what came of the call: a person who found out says so, or lets it run again.
function settling(entry) {
  const text = h("input", { type: "text", "aria-label": "What came of it", placeholder: "What came of it" });
  const problem = h("p", { class: "problem", role: "alert" });
  const send = async (how, failed) => {
    try {
      await post("/api/settle", { key: entry.key, how, failed, text: text.value });
      say(`${entry.tool} was ${how === "reopen" ? "reopened" : "settled"}`);
    } catch (error) { problem.textContent = error.message; }
  };
  return h("div", {}, text, h("div", { class: "row" },
    h("button", { type: "button", class: "small", onclick: () => send("settle", false) }, "It was done"),
    h("button", { type: "button", class: "small", onclick: () => send("settle", true) }, "It failed"),
    h("button", { type: "button", class: "small", onclick: () => send("reopen", false) }, "Let it run again")), problem);
}
