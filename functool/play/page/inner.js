// The calls inside of a call, as a tree: each is opened to its arguments and its result.

import { h, took } from "/files/dom.js";
import { text } from "/files/result.js";

export class InnerCalls {
  constructor() {
    this.list = h("ul", { class: "inner" });
    this.box = h("section", { id: "inner", hidden: true, "aria-label": "Inner calls" }, h("h4", {}, "Inner calls"), this.list);
    this.nodes = new Map();
    this.asked = new Set();
  }

  // A call begins or ends: what came of it is told under the same number.
  tell(message) {
    let node = this.nodes.get(message.number);
    if (!node) {
      node = this.made(message.tool, message.call_id, message.arguments);
      this.nodes.set(message.number, node);
      const parent = this.nodes.get(message.parent);
      (parent ? this.under(parent) : this.list).append(node.item);
      this.box.hidden = false;
    }
    if (message.did === "runs") this.state(node, this.asked.has(node.id) ? "waits" : "runs");
    else {
      node.result = message.text;
      node.time.textContent = took(message.ms);
      this.state(node, message.failed ? "failed" : "done", message.did);
    }
  }

  made(tool, id, given) {
    const node = { id, given, result: null, did: h("span", { class: "did" }), time: h("span", { class: "ms" }), told: h("div", { class: "told" }), children: null };
    const summary = h("summary", {}, h("span", { class: "who" }, tool || "(no name)"), " ", node.did, " ", node.time, " ", h("code", { class: "quiet" }, id));
    node.details = h("details", {}, summary, node.told);
    node.item = h("li", { data: { did: "runs" } }, node.details);
    node.details.addEventListener("toggle", () => this.open(node));
    return node;
  }

  under(node) {
    if (!node.children) { node.children = h("ul", { class: "inner" }); node.item.append(node.children); }
    return node.children;
  }

  state(node, did, words = null) {
    const said = { runs: "runs…", waits: "waits for a person", ended: "ended" };
    node.item.dataset.did = did;
    node.did.textContent = words || said[did] || did;
    this.open(node);
  }

  // What is closed costs nothing: arguments and result are drawn when somebody looks.
  open(node) {
    if (!node.details.open) return;
    const result = node.result === null ? h("p", { class: "quiet" }, "There is no result yet.") : text(node.result, node.result.length, "inner result");
    node.told.replaceChildren(h("h5", {}, "Arguments"), text(node.given, node.given.length, "arguments"), h("h5", {}, "Result"), result);
  }

  // Which calls wait for a person now, by their ids.
  waiting(ids) {
    this.asked = ids;
    for (const node of this.nodes.values()) {
      if (node.item.dataset.did === "runs" && ids.has(node.id)) this.state(node, "waits");
      else if (node.item.dataset.did === "waits" && !ids.has(node.id)) this.state(node, "runs");
    }
  }

  // Calls that the result tells of, and that were not seen to happen: those of another process.
  known(calls) {
    if (!Array.isArray(calls)) return;
    const byId = new Map([...this.nodes.values()].map((node) => [node.id, node]));
    for (const call of calls.slice(0, 300)) {
      const id = String(call?.id ?? "");
      if (byId.has(id)) continue;
      const node = this.made(String(call?.name ?? "").slice(0, 200), id.slice(0, 200), "");
      node.details.replaceWith(h("div", { class: "leaf" }, ...node.details.firstChild.childNodes));
      byId.set(id, node);
      const parent = byId.get(id.slice(0, Math.max(0, id.lastIndexOf("/"))));
      (parent ? this.under(parent) : this.list).append(node.item);
      this.state(node, call?.outcome === "done" ? "done" : "failed", String(call?.outcome ?? "").slice(0, 200));
      this.box.hidden = false;
    }
  }

  end() {
    for (const node of this.nodes.values()) if (["runs", "waits"].includes(node.item.dataset.did)) this.state(node, "ended");
  }
}
