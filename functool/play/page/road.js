// The road of one call, drawn while it happens.

import { h, took } from "/files/dom.js";
import { InnerCalls } from "/files/inner.js";

const SHOWN_EVENTS = 200;

export class Road {
  constructor(holder, guardrails) {
    this.list = h("ol", { class: "road", "aria-label": "The road of the call" });
    this.bar = h("progress", { hidden: true, "aria-label": "Progress" });
    this.message = h("p", { class: "progress-text", role: "status" });
    this.events = h("ol", { class: "events", "aria-label": "Events" });
    this.details = h("details", { hidden: true }, h("summary", {}, "Events"), this.events);
    this.inner = new InnerCalls();
    this.id = null;
    this.asked = new Set();
    holder.replaceChildren(this.list, this.bar, this.message, this.inner.box, this.details);
    for (const step of ["decode", "validate"]) this.add(step, "");
    for (const name of guardrails.input) this.add("input guardrail", name);
    this.add("body", "");
    for (const name of guardrails.output) this.add("output guardrail", name);
    this.add("output", "");
  }

  add(step, name) {
    const time = h("span", { class: "ms" });
    const did = h("span", { class: "did" }, "waits");
    const item = h("li", { data: { step, name, did: "waits" } },
      h("span", { class: "step" }, step), h("span", { class: "who" }, step === "body" ? "" : name), did, time);
    this.list.append(item);
    return item;
  }

  step({ step, name, did, ms }) {
    const open = [...this.list.children].filter((item) => item.dataset.step === step
      && (step === "body" || item.dataset.name === name)
      && (item.dataset.did === "waits" || item.dataset.did === "started"));
    const item = open.find((each) => each.dataset.did === "started" && did !== "started") || open[0] || this.add(step, name);
    item.dataset.did = did;
    item.querySelector(".did").textContent = did === "started" ? "runs…" : did;
    if (ms !== null) item.querySelector(".ms").textContent = took(ms);
    this.waiting(this.asked);
  }

  progress({ message, done, total }) {
    this.bar.hidden = false;
    if (total) { this.bar.max = total; this.bar.value = done || 0; } else this.bar.removeAttribute("value");
    this.message.textContent = [message, done !== null ? `${done}${total ? ` of ${total}` : ""}` : ""].filter(Boolean).join(" · ");
    this.event({ event: "tool:progress", tool: "", data: this.message.textContent });
  }

  event({ event, tool, data }) {
    this.details.hidden = false;
    this.events.append(h("li", {}, h("code", {}, event), ` ${tool} `, h("span", {}, data || "")));
    while (this.events.children.length > SHOWN_EVENTS) this.events.firstChild.remove();
  }

  // Which calls wait for a person now, by their ids: this one, or one inside of it.
  waiting(ids) {
    this.asked = ids;
    this.inner.waiting(ids);
    for (const item of this.list.querySelectorAll("[data-did=started]")) {
      if (item.dataset.step === "input guardrail") item.querySelector(".did").textContent = ids.has(this.id) ? "waits for a person" : "runs…";
    }
  }

  end() {
    this.bar.hidden = true;
    this.inner.end();
    for (const item of this.list.children) {
      if (item.dataset.did === "waits" || item.dataset.did === "started") {
        item.querySelector(".did").textContent = item.dataset.did === "waits" ? "not reached" : "ended";
        item.dataset.did = "skipped";
      }
    }
  }
}
