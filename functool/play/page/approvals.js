// What waits for a person, and what is allowed beforehand.

import { ascii, h, post, say } from "/files/dom.js";

const cards = new Map();

export function pending(requests) {
  const holder = document.getElementById("waiting");
  document.getElementById("waiting-count").textContent = requests.length;
  const link = document.getElementById("asks");
  link.hidden = !requests.length;
  link.textContent = requests.length === 1 ? "1 call waits for you" : `${requests.length} calls wait for you`;
  document.title = requests.length ? `(${requests.length}) functool playground` : "functool playground";
  const known = new Set(requests.map((request) => request.id));
  for (const [id, card] of cards) if (!known.has(id)) { card.remove(); cards.delete(id); }
  for (const request of requests) {
    if (cards.has(request.id)) continue;
    const card = made(request);
    cards.set(request.id, card);
    holder.append(card);
    say(`${named(request)} waits for your ${request.question ? "answer" : "approval"}`);
  }
  let empty = document.getElementById("nothing-waits");
  if (!requests.length && !empty) holder.append(h("p", { id: "nothing-waits", class: "quiet" }, "Nothing waits."));
  if (requests.length) empty?.remove();
}

function made(request) {
  const text = h("textarea", { rows: Math.min(14, request.arguments.split("\n").length + 1), spellcheck: "false", "aria-label": request.question ? "Answers to the server" : `Arguments of ${request.tool.slice(0, 100)}` });
  text.value = request.arguments;
  const reason = h("input", { type: "text", "aria-label": "Reason of a refusal, for the model", placeholder: "Why not (the model reads it)" });
  const problem = h("p", { class: "problem", role: "alert" });
  const approve = h("button", { type: "button", class: "go" }, "Approve");
  const refuse = h("button", { type: "button", class: "stop" }, "Refuse");
  const allow = allowing(request, (sent) => answer("allow", sent));
  const isEdited = () => text.value !== request.arguments;
  text.addEventListener("input", () => {
    approve.textContent = isEdited() ? "Approve as edited" : "Approve";
    if (!request.question) allow.hidden = isEdited();
  });
  const answer = async (how, more = {}) => {
    problem.textContent = "";
    try {
      await post("/api/answer", { id: request.id, how, ...more });
      // The list may still hold the request for a moment: nobody should answer it twice.
      cards.get(request.id)?.remove();
      say(`${named(request)} was ${how === "deny" ? "refused" : "approved"}`);
    } catch (error) { problem.textContent = error.message; }
  };
  approve.addEventListener("click", () => isEdited() ? answer("edit", { arguments: text.value }) : answer("approve"));
  refuse.addEventListener("click", () => answer("deny", { reason: reason.value }));
  const sources = Object.entries(request.sources).map(([place, names]) =>
    h("li", {}, h("code", {}, ascii(place) || "all arguments"), ` came from ${names.join(", ")}: it may hold text of strangers`));
  const all = request.whole
    ? [text, sources.length ? h("ul", { class: "sources" }, sources) : null, h("div", { class: "row" }, approve, refuse), ...(request.question ? [] : [reason, allow])]
    : [h("p", {}, `The arguments are ${request.size.toLocaleString()} characters long: too long to be seen, so they can only be refused.`), h("div", { class: "row" }, refuse), reason];
  return h("article", { class: "card", data: { request: request.id } },
    h("h3", {}, request.question ? "The server asks you" : `${request.tool.slice(0, 200)} asks to run`),
    request.question ? h("pre", { tabindex: "0", "aria-label": "Question of the server" }, request.question) : h("p", { class: "quiet" }, `Call ${request.call_id || "without an id"} of ${asker(request)}, ${new Date(request.created).toLocaleTimeString()}`), ...all.filter(Boolean), problem);
}

function named(request) {
  return request.question ? "A question of the server" : request.tool.slice(0, 100);
}

// Approve this call and the next ones like it: which arguments may differ, how often, how long.
function allowing(request, send) {
  const free = request.names.map((name) => {
    const box = h("input", { type: "checkbox" });
    return { name, box, label: h("label", { class: "check" }, box, ` ${ascii(name).slice(0, 100)} may be anything`) };
  });
  const uses = h("input", { type: "number", min: 1, max: 1000, value: 5 });
  const minutes = h("input", { type: "number", min: 1, max: 10080, value: 60 });
  const button = h("button", { type: "button" }, "Approve, and allow the next ones");
  button.addEventListener("click", () => send({
    free: free.filter((each) => each.box.checked).map((each) => each.name), uses: Number(uses.value), minutes: Number(minutes.value),
  }));
  return h("details", {}, h("summary", {}, "Allow for next time"),
    h("p", { class: "quiet" }, `Later calls of this tool run unasked, while the other arguments are the same. This holds for the conversation that asks (${asker(request)}) and for no other.`),
    ...free.map((each) => each.label),
    h("label", {}, "How many calls ", uses), h("label", {}, "For how many minutes ", minutes), button);
}

// Which conversation asks: that of this page, or another one by the beginning of its id.
function asker({ asks }) {
  return asks === "this page" ? "this page" : `conversation ${asks || "that has ended"}`;
}

export function grants(list) {
  document.getElementById("grants")?.remove();
  if (!list.length) return;
  const items = list.map((grant) => h("li", {},
    `${grant.tool.slice(0, 200)}: ${grant.uses} more, until ${new Date(grant.expires_at * 1000).toLocaleString()}, for ${asker(grant)} `,
    h("code", {}, ascii(JSON.stringify(grant.arguments)).slice(0, 500)), grant.free.length ? ` any ${ascii(grant.free.join(", "))} ` : " ",
    h("button", { type: "button", class: "small", onclick: () => post("/api/answer", { id: grant.id, how: "revoke" }) }, "Revoke")));
  document.getElementById("waiting").after(h("div", { id: "grants" }, h("h3", {}, "Allowed beforehand"), h("ul", {}, items)));
}
