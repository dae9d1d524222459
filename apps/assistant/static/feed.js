// The conversation: instructions and steps, one line a step until it is opened; questions of the agent at its end.

import { markdown } from "./markdown.js";
import { button, call, icon, iconButton, inWords, isOnScreen, make, sessionPath, shownText, stepsOf, store, toolName } from "./store.js";

const MAX_CARDS = 300;
const NEAR_END_PX = 60;
const SHORT_CHARS = 400;
const KEY_MS = 700;
const COVERED = "allowed before: ";
const ICONS = { Click: "click", Move: "click", Drag: "click", MouseDown: "click", MouseUp: "click", Scroll: "scroll", TypeText: "type",
  TypeSecret: "type", PressKey: "type", Hotkey: "type", Wait: "wait", Terminate: "done" };
const KINDS = { delete: "deletes", pay: "payments", send: "sending", submit: "submitting", credentials: "logins",
  leave_domains: "leaving the sites", "": "such steps" };

class Feed extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.build();
    // the keys of a question work wherever nothing is typed, also after the card has lost the focus
    this.onKey = (event) => event.target === document.body
      && this.asks.lastElementChild?.dispatchEvent(new KeyboardEvent("keydown", event));
    document.addEventListener("keydown", this.onKey);
    this.leave = store.follow({
      replay: () => this.clear(), opened: () => this.clear(), event: (event) => this.add(event.detail), view: () => this.draw(),
      sent: () => this.pin(),
    });
    this.clear();
    for (const event of store.events) this.add(event);
  }

  disconnectedCallback() { this.leave(); document.removeEventListener("keydown", this.onKey); }

  build() {
    this.isMade = true;
    this.steps = new Map();
    this.log = make("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Instructions and steps",
      tabindex: "0" });
    this.below = button("New below", () => this.pin(), "below");
    this.thought = make("p", { class: "thought", hidden: true, "aria-hidden": "true" });
    this.asks = make("div", { class: "asks", role: "region", "aria-label": "Questions of the agent", hidden: true });
    this.undoList = make("ul");
    this.undo = make("details", { class: "undo", hidden: true }, make("summary", {}, "How to take the last steps back"), this.undoList);
    this.replaceChildren(make("div", { class: "log-frame" }, this.log, this.below), this.thought, this.asks, this.undo);
    // it stays at the end until a person scrolls up
    for (const name of ["wheel", "touchmove", "pointerup", "keyup", "scroll"]) {
      this.log.addEventListener(name, () => requestAnimationFrame(() => this.look(name)), { passive: true });
    }
    new ResizeObserver(() => this.follow()).observe(this.log);
  }

  clear() {
    this.steps.clear();
    this.asksKey = null;
    this.log.replaceChildren(make("p", { class: "empty" }, "Say what you want below. Each step shows here."));
    this.pin();
    this.draw();
  }

  pin() {
    this.isPinned = true;
    this.below.hidden = true;
    this.follow();
  }

  look(name) {
    const isAtEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
    if (name !== "scroll" || isAtEnd) this.isPinned = isAtEnd; // a scroll by the page itself does not let go
    if (isAtEnd) this.below.hidden = true;
  }

  follow() { if (this.isPinned) this.log.scrollTop = this.log.scrollHeight; }

  add(event) {
    const log = this.log;
    const card = this.card(event);
    if (!card) return;
    log.querySelector(":scope > .empty")?.remove();
    log.append(card);
    while (log.childElementCount > MAX_CARDS) log.firstElementChild.remove();
    this.below.hidden = this.isPinned;
    this.follow();
  }

  card(event) {
    switch (event.event) {
      case "instruction": return this.instruction(event);
      case "decided": return this.step(event);
      case "step_done": return this.finish(event);
      case "calls_started": return this.calls(event);
      case "call_returned": return this.returned(event);
      case "note": return this.note(event);
      case "person": return make("p", { class: "note is-person" }, `You ${event.text}`);
      case "answered": return make("p", { class: "note" }, `You ${event.text} it`);
      case "ended": return this.ended(event);
      case "error": return make("div", { class: "card result is-error", role: "alert" }, event.text);
      default: return null;
    }
  }

  note({ kind, text }) {
    const isCovered = text.includes(COVERED);
    if (kind === "refused" || (kind === "approved" && !isCovered)) return null; // the step and "You allowed it" say so
    const words = isCovered ? `Your answer covers this, too: ${text.split(COVERED)[1]}` : kind === "loop" ? `The agent got a hint: ${text}`
      : noted(kind.replace("_", " "), text);
    return make("p", { class: `note is-${kind}`, dir: "auto" }, words);
  }

  instruction(event) {
    const files = (event.files || []).map((file) => make("span", { class: "file" },
      file.image ? make("img", { alt: "", loading: "lazy", src: sessionPath(`images/${encodeURIComponent(file.image)}`) }) : icon("attach"),
      make("span", { class: "name" }, file.name)));
    return make("div", { class: "card instruction" }, make("span", { dir: "auto" }, event.text),
      files.length ? make("div", { class: "files" }, ...files) : null);
  }

  // one line; the rest shows when it is opened
  line(event, name, sentence, ...more) {
    const card = make("article", { class: "card step", "data-step": event.step, "aria-label": `Step ${event.step}` },
      make("details", {}, make("summary", {}, icon(name), make("span", { class: "number" }, String(event.step)),
        make("span", { class: "action", dir: "auto" }, sentence), make("span", { class: "time" })), ...more));
    this.steps.set(event.step, card);
    return card;
  }

  step(event) {
    const verb = event.actions?.[0]?.verb;
    return this.line(event, ICONS[verb] || "code", event.action || "(no words)",
      event.thought.trim() ? make("p", { dir: "auto" }, event.thought.trim()) : null,
      make("details", {}, make("summary", {}, "Code"), make("pre", { tabindex: "0" }, event.code)));
  }

  finish(event) {
    const card = this.steps.get(event.step);
    if (!card) return null;
    const total = Object.values(event.timings_s || {}).reduce((sum, seconds) => sum + seconds, 0);
    card.querySelector(".time").textContent = `${Math.max(0, total - (event.waited_s || 0)).toFixed(1)} s`;
    card.classList.toggle("has-error", !!event.error);
    if (event.error) card.append(make("p", { class: "foot", dir: "auto" }, event.error));
    this.follow();
    return null;
  }

  calls(event) {
    const calls = event.calls.map((one) => make("details", {}, make("summary", {}, one.name),
      make("pre", { tabindex: "0" }, argumentText(one.arguments))));
    const names = [...new Set(event.calls.map((one) => toolName(one.name)))];
    return this.line(event, "code", event.content.trim() || names.join(", "), ...calls);
  }

  returned(event) {
    const images = (event.images || []).map((name, number) => make("img", { loading: "lazy",
      alt: `Image ${number + 1} of result ${event.number}`,
      src: sessionPath(`images/${encodeURIComponent(name)}`) }));
    const text = shownText(event);
    return make("article", { class: `card returned${event.is_error ? " has-error" : ""}`, id: `result-${event.number}`,
      tabindex: "-1" }, make("details", { open: !isOnScreen(store.view?.mode) && text.length < SHORT_CHARS }, make("summary", {}, `Result ${event.number}`),
      make("pre", { tabindex: "0" }, text || (images.length ? "An image" : "(nothing was printed)"))), ...images);
  }

  ended(event) {
    const copy = iconButton("copy", "Copy the answer", () => navigator.clipboard.writeText(event.answer).then(
      () => copy.setAttribute("aria-label", "Copied"), () => copy.setAttribute("aria-label", "Copying failed")));
    return make("article", { class: `card result is-${event.status}`, "aria-label": "Result" },
      make("header", {}, make("span", { class: "badge" }, inWords(event.status)),
        make("span", { class: "foot" }, `${stepsOf(event.steps)} · ${event.duration_s.toFixed(1)} s`), event.answer ? copy : null),
      make("p", { class: "reason", dir: "auto" }, event.reason),
      event.answer ? make("div", { class: "answer", dir: "auto" }, ...markdown(event.answer, citation)) : null);
  }

  draw() {
    const view = store.view;
    const thought = view && view.phase !== "ended" ? view.thought.trim() : "";
    this.thought.hidden = !thought;
    if (thought) this.thought.textContent = thought.slice(-600);
    const undo = view?.undo || [], undoKey = undo.join("\n");
    if (undoKey !== this.undoKey) {
      this.undoKey = undoKey;
      this.undo.hidden = !undo.length;
      this.undoList.replaceChildren(...undo.map((text) => make("li", { dir: "auto" }, text)));
    }
    this.ask(view ? view.approvals : []);
  }

  ask(approvals) {
    const key = approvals.map((approval) => approval.id).join();
    if (key === this.asksKey) return;
    this.asksKey = key;
    const before = document.activeElement;
    if (!this.asks.contains(before)) this.before = before; // it gets the focus back
    const isLeft = this.asks.contains(before) && !approvals.length;
    this.asks.hidden = !approvals.length;
    this.asks.replaceChildren(...approvals.map((approval) => this.question(approval)));
    this.askedAt = performance.now();
    const typing = document.activeElement?.matches?.("input, textarea") && document.activeElement.value; // its focus stays
    if (!typing) this.asks.querySelector("article")?.focus({ preventScroll: true });
    if (isLeft) (this.before?.isConnected && this.before !== document.body ? this.before : this.log).focus({ preventScroll: true });
    this.follow();
  }

  question(approval) {
    const say = (answer) => () => store.say({ do: "answer", approval: approval.id, answer });
    const takeOver = () => store.say({ do: "take_over" });
    const key = (letter) => make("kbd", { "aria-hidden": "true" }, letter);
    const kind = KINDS[approval.risk] || approval.risk.replace("_", " ");
    const choices = [["a", "Allow once", say("once"), "primary"],
      approval.risk === "take_over" ? ["t", "Take over", takeOver, ""]
        : ["s", approval.site ? `Allow ${kind} on this site until closed` : `Allow ${kind} until closed`, say("site"), ""],
      ["d", "Deny", say("deny"), "danger"]];
    const byKey = (event) => {
      const isMeant = performance.now() - this.askedAt > KEY_MS; // not the rest of a word typed elsewhere
      const isPlain = isMeant && !(event.ctrlKey || event.metaKey || event.altKey || event.repeat);
      choices.find(([letter]) => isPlain && letter === event.key.toLowerCase())?.[2]();
    };
    return make("article", { class: "card ask", tabindex: "-1", role: "alertdialog", "aria-label": "The agent asks", onkeydown: byKey },
      make("h3", { dir: "auto" }, approval.question),
      approval.risk === "page_text" ? make("p", { class: "reason", dir: "auto" }, approval.reason) : null,
      approval.has_crop ? make("img", { alt: `What it clicks: ${approval.target || "unknown"}`,
        src: sessionPath(`approvals/${encodeURIComponent(approval.id)}/crop`) }) : null,
      make("div", { class: "answers" }, ...choices.map(([letter, label, act, style]) => button(label, act, style, key(letter.toUpperCase())))),
      make("details", {}, make("summary", {}, "Details"), make("p", { class: "action", dir: "auto" }, approval.action || approval.reason),
        make("p", { class: "reason", dir: "auto" }, approval.reason),
        approval.target ? make("p", { class: "target", dir: "auto" }, `It lands on: ${approval.target}`) : null,
        approval.site ? make("p", { class: "reason" }, `Site: ${approval.site}`) : null,
        make("pre", { tabindex: "0" }, approval.code),
        store.view?.policy ? make("p", { class: "reason" }, `${store.view.policy} A sentence below says no, and what to do instead.`) : null));
  }
}

function noted(kind, text) { return text.startsWith(kind) ? text : `${kind}: ${text}`; }

function argumentText(text) {
  try {
    const values = Object.values(JSON.parse(text));
    return values.length === 1 ? String(values[0]) : text;
  } catch { return text; }
}

function citation(mark) {
  return make("a", { href: `#result-${mark}`, class: "cite", "aria-label": `Evidence ${mark}`, onclick: (event) => {
    event.preventDefault();
    openEvidence(mark, event.target.closest("article"));
  } }, mark);
}

async function openEvidence(mark, answer) {
  let card = document.getElementById(`result-${mark}`);
  if (!card) {
    const path = `/sessions/${encodeURIComponent(store.session)}/evidence/${encodeURIComponent(mark)}`;
    const found = await call("GET", path).catch((error) => ({ tool: "", arguments: "", text: error.message }));
    card = make("article", { class: "card returned", id: `result-${mark}`, tabindex: "-1" },
      make("details", {}, make("summary", {}, `Result ${mark}: ${found.tool} ${argumentText(found.arguments)}`),
        make("pre", { tabindex: "0" }, found.text || "(nothing)")));
    answer.after(card);
  }
  card.querySelector("details")?.setAttribute("open", "");
  card.scrollIntoView({ block: "center" });
  card.focus();
}

customElements.define("assistant-feed", Feed);
