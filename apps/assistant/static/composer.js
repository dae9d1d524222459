// The composer: text, files, mode and start of the session that is open; each session keeps its own draft.

import { MODES, call, icon, iconButton, isOnScreen, make, store } from "./store.js";

const PLACES = { here: "Continue here", practice: "Practice page", web: "Web address", desktop: "Private desktop" };
const ACTIVE = ["starting", "working", "pausing", "paused", "asking", "person", "stopping"];
const KEPT = "assistant-draft"; // texts that were not sent, over a reload

class Composer extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.build();
    this.leave = store.follow({ opened: () => this.restore(), view: () => this.draw(), fill: (event) => this.fill(event.detail),
      practice: () => this.practise() });
    this.restore();
  }

  disconnectedCallback() { this.leave(); }

  build() {
    this.isMade = true;
    this.drafts = new Map();
    this.words = make("textarea", { rows: "1", "aria-label": "Instruction", oninput: () => this.keep(), onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    }, onpaste: (event) => this.attach(event.clipboardData?.files) });
    const options = (values) => Object.entries(values).map(([value, label]) => make("option", { value }, label));
    this.mode = make("select", { class: "pick", "aria-label": "Mode", onchange: () => this.choose() }, ...options(MODES));
    this.place = make("select", { class: "pick", "aria-label": "Start at", onchange: () => this.choose() }, ...options(PLACES));
    this.where = make("input", { type: "text", class: "where", autocomplete: "off", oninput: () => { this.draft.where = this.where.value; } });
    this.chooser = make("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files", onchange: () => {
      this.attach(this.chooser.files);
      this.chooser.value = "";
    } });
    this.files = make("div", { class: "files", hidden: true });
    this.problem = make("p", { class: "problem", role: "alert", hidden: true });
    this.sendButton = make("button", { type: "submit", class: "round primary", "aria-label": "Send", title: "Send" }, icon("send"));
    this.append(make("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); this.send(); } },
      this.problem, this.files, this.words,
      make("div", { class: "row" }, iconButton("attach", "Attach files", () => this.chooser.click()), this.mode, this.place, this.where,
        this.chooser, this.sendButton)));
    for (const name of ["dragover", "drop"]) {
      this.addEventListener(name, (event) => {
        event.preventDefault();
        if (name === "drop") this.attach(event.dataTransfer.files);
      });
    }
  }

  get draft() {
    if (!this.drafts.has(store.session)) {
      const text = JSON.parse(sessionStorage.getItem(KEPT) || "{}")[store.session] || "";
      this.drafts.set(store.session, { text, files: [], mode: "thinking", place: "practice", where: "", isChosen: !store.session });
    }
    return this.drafts.get(store.session);
  }

  keep() {
    this.draft.text = this.words.value;
    const kept = { ...JSON.parse(sessionStorage.getItem(KEPT) || "{}"), [store.session]: this.words.value || undefined };
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    this.grow();
  }

  grow() {
    this.words.style.height = "auto";
    this.words.style.height = `${Math.min(this.words.scrollHeight, 160)}px`;
  }

  restore() {
    this.words.value = this.draft.text;
    this.warn("");
    this.draw();
    this.grow();
  }

  choose() {
    Object.assign(this.draft, { mode: this.mode.value, place: this.place.value, isChosen: true });
    this.draw();
    if (this.draft.place === "web" && !this.draft.where) this.where.focus();
  }

  // what the session is, until a person chooses something else
  follow() {
    const { draft } = this, view = store.view;
    if (!view) return;
    const key = [view.phase === "ended", view.can_continue, view.mode, view.place, view.where].join();
    if (key !== draft.key) Object.assign(draft, { key, isChosen: false });
    if (draft.isChosen) return;
    const place = view.can_continue ? "here" : view.place === "here" ? "practice" : view.place;
    Object.assign(draft, { mode: view.mode, place, where: view.place === place ? view.where : draft.where });
  }

  draw() {
    this.follow();
    const { draft } = this, view = store.view;
    const isActive = !!view && ACTIVE.includes(view.phase);
    const canContinue = !!view?.can_continue;
    const here = this.place.querySelector("[value=here]");
    here.hidden = here.disabled = !canContinue;
    if (draft.place === "here" && !canContinue && !isActive) draft.place = "practice";
    this.mode.value = draft.mode;
    this.place.value = isActive && draft.place === "here" ? view.place : draft.place;
    this.mode.disabled = this.place.disabled = this.where.disabled = isActive;
    const isPlaced = isOnScreen(draft.mode);
    this.place.hidden = !isPlaced;
    this.where.hidden = !isPlaced || !["web", "desktop"].includes(draft.place);
    const label = draft.place === "desktop" ? "Program" : "Address";
    for (const name of ["aria-label", "placeholder"]) this.where.setAttribute(name, label);
    if (document.activeElement !== this.where) this.where.value = draft.where || "";
    this.words.placeholder = isActive ? "A sentence redirects the agent." : canContinue ? "What is next on this screen?" : "What is to be done?";
    this.sendButton.disabled = draft.isSending;
    this.drawFiles();
  }

  drawFiles() {
    const key = this.draft.files.map((file) => `${file.id}${file.name}`).join();
    if (key === this.filesKey) return;
    this.filesKey = key;
    this.files.hidden = !this.draft.files.length;
    this.files.replaceChildren(...this.draft.files.map((file) => make("span", { class: `file${file.id ? "" : " is-loading"}` },
      file.url ? make("img", { alt: "", src: file.url }) : icon("attach"), make("span", { class: "name" }, file.name),
      iconButton("close", `Remove ${file.name}`, () => this.remove(file), "small"))));
  }

  remove(file) {
    this.draft.files = this.draft.files.filter((one) => one !== file);
    if (file.url) URL.revokeObjectURL(file.url);
    this.drawFiles();
  }

  async attach(files) {
    const { draft } = this;
    await Promise.all([...files || []].map(async (given) => {
      const file = { name: given.name, id: "", url: given.type.startsWith("image/") ? URL.createObjectURL(given) : "" };
      draft.files.push(file);
      this.drawFiles();
      try {
        const path = `/files?name=${encodeURIComponent(given.name)}`;
        file.id = (await call("POST", path, given, "application/octet-stream")).name;
      } catch (error) {
        draft.files = draft.files.filter((one) => one !== file);
        this.warn(`${given.name}: ${error.message}`);
      }
      this.drawFiles();
    }));
  }

  warn(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  fill(request) {
    const { instruction, mode = "thinking", place = "practice", url, app } = request;
    Object.assign(this.draft, { text: instruction, mode, place, where: url || app || "", isChosen: true });
    this.restore();
    this.words.focus();
  }

  async practise() {
    const { practice } = await call("GET", "/about");
    const mode = isOnScreen(this.draft.mode) ? this.draft.mode : "thinking";
    await this.startRun({ instruction: practice, mode, place: "practice" });
  }

  async send() {
    const { draft } = this;
    const instruction = this.words.value;
    if (!instruction.trim() || draft.isSending) return;
    if (draft.files.some((file) => !file.id)) return this.warn("A file is still being sent.");
    const place = this.place.value;
    const start = place === "web" ? { url: draft.where.trim() || null } : place === "desktop" ? { app: draft.where.trim() || null } : {};
    const files = draft.files.map((file) => file.id);
    await this.startRun({ instruction, mode: this.mode.value, place, files, ...start }, draft);
  }

  async startRun(request, draft = null) {
    if (draft) draft.isSending = true;
    this.draw();
    try {
      const path = store.session ? `/sessions/${encodeURIComponent(store.session)}/orders` : "/sessions";
      const { id } = await call("POST", path, request);
      if (draft) {
        draft.files.forEach((file) => file.url && URL.revokeObjectURL(file.url));
        Object.assign(draft, { text: "", files: [], isChosen: !store.session });
        this.words.value = "";
        this.keep();
      }
      this.warn("");
      store.open(id);
      store.tell("sent");
    } catch (error) {
      this.warn(error.message);
    } finally {
      if (draft) draft.isSending = false;
      this.draw();
    }
  }
}

customElements.define("assistant-composer", Composer);
