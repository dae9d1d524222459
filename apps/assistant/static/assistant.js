// The live part of the page: screen, feed and sessions, over one connection to a session.
// What models, pages and files say is set as text only, never as HTML.

const PHASES = {
  ready: "Ready", starting: "Starting", working: "Working", pausing: "Finishing a step", paused: "Paused",
  asking: "Waiting for your answer", person: "You have the screen", stopping: "Stopping", ended: "Ended",
};
const MAX_CARDS = 300;
const MAX_EVENTS = 3000;
const MOVE_MS = 60;
const reduced = matchMedia("(prefers-reduced-motion: reduce)");

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== ""));
  return element;
}

async function call(method, path, body) {
  const answer = await fetch(`/api${path}`, {
    method, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error || `the app answered ${answer.status}`);
  return found;
}

// ---------------------------------------------------------------- one connection for the whole page

class Store extends EventTarget {
  constructor() {
    super();
    this.session = new URL(location.href).searchParams.get("session") || "";
    this.view = null;
    this.events = []; // and the newest image: for parts of the page that come later than they do
    this.frame = null;
    this.sessions = [];
    this.socket = null;
    this.isLost = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.connect()));
    this.list();
    setInterval(() => document.hidden || this.list(), 3000);
  }

  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  async list() {
    try {
      this.sessions = await call("GET", "/sessions");
    } catch { return; }
    const isFirst = !this.isListed;
    this.isListed = true;
    if (!this.session) {
      const running = isFirst && this.sessions.find((session) => session.phase !== "ended");
      if (running) this.open(running.id);
    } else if (!this.sessions.some((session) => session.id === this.session)) {
      this.open("");
    } else if (!this.socket) this.connect();
    this.tell("sessions");
  }

  open(id) {
    if (id === this.session && this.socket) return;
    this.session = id;
    const url = new URL(location.href);
    id ? url.searchParams.set("session", id) : url.searchParams.delete("session");
    history.replaceState(null, "", url);
    this.rest();
    this.view = this.frame = null;
    this.events = [];
    this.tell("opened");
    this.connect();
    this.list();
  }

  rest() {
    const socket = this.socket;
    this.socket = null;
    if (socket) socket.close();
  }

  connect() {
    if (!this.session || this.socket || document.hidden) return;
    const id = this.session;
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/sessions/${encodeURIComponent(id)}/live`);
    socket.binaryType = "blob";
    this.socket = socket;
    let isFirst = true;
    socket.onmessage = (message) => {
      if (this.socket !== socket) return;
      if (typeof message.data !== "string") {
        this.frame = message.data;
        return this.tell("frame", message.data);
      }
      const news = JSON.parse(message.data);
      if (news.error) return this.tell("problem", news.error);
      if (isFirst) {
        this.events = [];
        this.tell("replay");
      }
      isFirst = false;
      this.isLost = false;
      this.view = news.view;
      const chip = this.sessions.find((session) => session.id === id);
      if (chip && chip.phase !== news.view.phase) {
        Object.assign(chip, { phase: news.view.phase, result: news.view.result });
        this.tell("sessions");
      }
      if (news.events.length) this.events = [...this.events, ...news.events].slice(-MAX_EVENTS);
      for (const event of news.events) this.tell("event", event);
      this.tell("view");
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.isLost = true;
      this.tell("view");
      setTimeout(() => this.connect(), 1000);
    };
  }

  say(order) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(order));
    else this.tell("problem", "The connection is lost; trying again.");
  }
}

const store = new Store();
window.assistantSession = () => store.session;

// ---------------------------------------------------------------- sessions side by side

class Sessions extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "navigation");
    this.setAttribute("aria-label", "Sessions");
    this.draw();
    store.addEventListener("sessions", (this.onNews = () => this.draw()));
    store.addEventListener("opened", this.onNews);
  }

  disconnectedCallback() {
    store.removeEventListener("sessions", this.onNews);
    store.removeEventListener("opened", this.onNews);
  }

  draw() {
    const key = JSON.stringify([store.session, store.sessions.map((one) => [one.id, one.phase, one.title])]);
    if (key === this.key) return;
    this.key = key;
    const focused = this.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.replaceChildren(
      make("button", { type: "button", class: "chip new", "data-id": "", "aria-pressed": String(!store.session),
        onclick: () => store.open("") }, "+ New"),
      ...store.sessions.map((session) => this.chip(session)),
    );
    if (focused != null) this.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  }

  chip(session) {
    const phase = session.phase === "ended" ? (session.result ? session.result.status : "not started") : PHASES[session.phase];
    return make("button", { type: "button", class: `chip is-${session.phase}`, "data-id": session.id, title: session.title,
      "aria-pressed": String(session.id === store.session), onclick: () => store.open(session.id) },
    make("span", { class: "dot", "aria-hidden": "true" }), make("span", { class: "name" }, session.title || "…"),
    make("span", { class: "state" }, phase));
  }
}

// ---------------------------------------------------------------- the live screen

class Screen extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.build();
    this.listeners = {
      view: () => this.draw(), opened: () => this.clear(), frame: (event) => this.show(event.detail),
      problem: (event) => this.warn(event.detail),
    };
    for (const [name, listener] of Object.entries(this.listeners)) store.addEventListener(name, listener);
    this.draw();
    if (store.frame) this.show(store.frame);
  }

  disconnectedCallback() {
    for (const [name, listener] of Object.entries(this.listeners)) store.removeEventListener(name, listener);
  }

  build() {
    this.isMade = true;
    this.queue = [];
    const button = (name, label, action, style = "") =>
      (this[name] = make("button", { type: "button", class: `tool ${style}`, onclick: action }, label));
    this.status = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.place = make("span", { class: "place" });
    this.image = make("img", { alt: "", draggable: "false", hidden: true });
    this.empty = make("p", { class: "empty" });
    this.pointer = make("span", { class: "pointer", "aria-hidden": "true", hidden: true });
    this.ring = make("span", { class: "ring", "aria-hidden": "true", hidden: true });
    this.stage = make("div", { class: "stage" }, this.image, this.empty, this.ring, this.pointer);
    this.problem = make("p", { class: "problem", role: "alert", hidden: true });
    button("pauseButton", "Pause", () => store.say({ do: this.isHeld ? "resume" : "pause" }));
    button("takeButton", "Take over", () => store.say({ do: this.isMine ? "resume" : "take_over" }));
    button("stopButton", "Stop", () => store.say({ do: "stop" }), "danger");
    this.typed = make("input", { type: "text", "aria-label": "Text to type into the screen", autocomplete: "off",
      placeholder: "Type into the screen; Enter sends" });
    this.typing = make("form", { class: "typing", hidden: true, onsubmit: (event) => this.sendTyped(event) }, this.typed,
      make("button", { type: "submit", class: "tool" }, "Type"),
      make("span", { class: "hint" }, "Or click the image and use your keyboard. Shift+Esc leaves it."));
    this.children_ = make("div", { class: "children", hidden: true });
    this.replaceChildren(
      make("div", { class: "bar" }, this.status, this.place, make("div", { class: "tools", role: "group",
        "aria-label": "Control of the run" }, this.pauseButton, this.takeButton, this.stopButton)),
      make("div", { class: "over" }, this.problem), this.stage, this.typing, this.children_);
    this.image.addEventListener("load", () => {
      this.natural = { width: this.image.naturalWidth, height: this.image.naturalHeight };
      this.mark();
    });
    new ResizeObserver(() => this.mark()).observe(this.image);
    this.listenToPerson();
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input, textarea, [contenteditable], assistant-screen .stage");
      if (event.key === "Escape" && !isTyping && store.view?.phase === "working") store.say({ do: "pause" });
    });
  }

  clear() {
    this.image.hidden = true;
    this.dataset.frames = "0";
    this.warn("");
    this.draw();
  }

  warn(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
    clearTimeout(this.warned);
    if (text) this.warned = setTimeout(() => this.warn(""), 8000);
  }

  async show(blob) {
    const url = URL.createObjectURL(blob);
    const old = this.image.src;
    this.image.src = url;
    this.image.hidden = false;
    this.empty.hidden = true;
    this.dataset.frames = String(Number(this.dataset.frames || 0) + 1);
    if (old.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(old), 500);
    this.mark();
  }

  get isMine() { return store.view?.phase === "person"; }
  get isHeld() { return ["paused", "person", "pausing"].includes(store.view?.phase); }

  draw() {
    const view = store.view;
    const phase = view ? view.phase : "ready";
    const isOn = !!view && !["ready", "ended", "stopping"].includes(phase);
    this.dataset.phase = phase;
    const held = view?.touched && phase === "paused" ? `Paused: you used the ${view.touched}` : PHASES[phase];
    const text = store.isLost ? "Connection lost, trying again" : held;
    const ended = view && phase === "ended" ? (view.result ? `${view.result.status}` : "not started") : text;
    const status = view && view.step ? `${ended} · step ${view.step}` : ended;
    if (this.status.textContent !== status) this.status.textContent = status;
    this.status.dataset.state = view?.result && phase === "ended" ? view.result.status : phase;
    const place = view ? view.url || view.tab || "" : "";
    if (this.place.textContent !== place) this.place.textContent = this.place.title = place;
    this.pauseButton.textContent = this.isHeld && !this.isMine ? "Resume" : "Pause";
    this.takeButton.textContent = this.isMine ? "Hand back" : "Take over";
    this.pauseButton.disabled = !isOn || phase === "starting" || this.isMine;
    this.takeButton.disabled = !isOn || !view.can_take_over || phase === "starting";
    this.stopButton.disabled = !isOn;
    this.typing.hidden = !this.isMine;
    this.stage.classList.toggle("is-mine", this.isMine);
    if (this.isMine) {
      this.stage.tabIndex = 0;
      this.stage.setAttribute("role", "application");
      this.stage.setAttribute("aria-label", "The agent's screen; mouse and keyboard go there. Shift+Escape leaves it.");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) this.stage.removeAttribute(name);
    }
    if (this.image.hidden) {
      this.empty.hidden = false;
      this.empty.textContent = !view ? "The screen shows here once there is something to do."
        : phase === "starting" ? "Starting…" : view.mode === "agent" || view.mode === "swarm"
          ? "This mode has no screen; its steps are shown next to it." : view.error || "No image yet.";
    }
    const about = view && view.has_screen ? `Screen, step ${view.step}${view.tab ? `: ${view.tab}` : ""}` : "";
    if (this.image.alt !== about) this.image.alt = about;
    this.stage.hidden = !!view?.children.length && this.image.hidden;
    this.drawChildren(view ? view.children : []);
    this.mark();
  }

  // where the image lies in its element, which may be wider or higher than it; the element itself says 0 by 0 while
  // the next frame is being decoded, so the size is that of the last one shown
  box() {
    const { clientWidth: width, clientHeight: height } = this.image;
    const natural = this.natural || { width: 1, height: 1 };
    const scale = Math.min(width / natural.width, height / natural.height);
    const shown = { width: natural.width * scale, height: natural.height * scale };
    return { ...shown, left: this.image.offsetLeft + (width - shown.width) / 2, top: this.image.offsetTop + (height - shown.height) / 2 };
  }

  // pointer and next click, over the image as it is laid out
  mark() {
    const box = this.box();
    for (const [mark, point] of [[this.pointer, store.view?.pointer], [this.ring, store.view?.next]]) {
      mark.hidden = !point || this.image.hidden || (mark === this.pointer && this.isMine);
      if (!mark.hidden) {
        mark.style.left = `${box.left + point[0] * box.width}px`;
        mark.style.top = `${box.top + point[1] * box.height}px`;
      }
    }
    this.pointer.classList.toggle("is-still", reduced.matches);
  }

  drawChildren(children) {
    this.children_.hidden = !children.length;
    while (this.children_.childElementCount > children.length) this.children_.lastElementChild.remove();
    children.forEach((child, at) => { // cards stay, so that a press of a button is not lost between two updates
      const card = this.children_.children[at] || this.children_.appendChild(this.makeChildCard());
      const key = JSON.stringify(child);
      if (card.dataset.key === key) return;
      Object.assign(card.dataset, { key, id: child.id });
      card.className = `child is-${child.state}`;
      const [name, state, last, orders] = card.children;
      const cost = child.cost_usd ? `${child.cost_usd.toFixed(4)} USD` : `${child.tokens} tokens`;
      name.textContent = `${child.id} ${child.name}`;
      state.textContent = `${child.state} · ${child.calls} ${child.calls === 1 ? "call" : "calls"} · ${cost}`;
      last.textContent = child.last;
      orders.hidden = !child.is_at_work;
      orders.setAttribute("aria-label", `Orders to ${child.id}`);
    });
  }

  makeChildCard() {
    const words = make("input", { type: "text", "aria-label": "New instruction", placeholder: "New instruction; Enter sends",
      autocomplete: "off", hidden: true });
    const button = (label, action, style = "") =>
      make("button", { type: "button", class: `tool ${style}`, onclick: action }, label);
    const orders = make("form", { class: "orders", hidden: true, onsubmit: (event) => {
      event.preventDefault();
      if (words.value.trim()) store.say({ do: "redirect_child", child: card.dataset.id, instruction: words.value.trim() });
      words.value = "";
      words.hidden = true;
    } }, button("Tell", () => { words.hidden = !words.hidden; words.focus(); }),
      button("Cancel", () => store.say({ do: "cancel_child", child: card.dataset.id }), "danger"), words);
    const card = make("div", { class: "child" }, make("strong"), make("span"), make("span", { class: "last" }), orders);
    return card;
  }

  // -------------------------------------------------------------- the person's mouse and keyboard

  point(event) {
    const box = this.box(), stage = this.stage.getBoundingClientRect();
    const left = stage.left + this.stage.clientLeft + box.left, top = stage.top + this.stage.clientTop + box.top;
    const within = (value) => Math.min(1, Math.max(0, value));
    return { x: within((event.clientX - left) / box.width), y: within((event.clientY - top) / box.height) };
  }

  send(input) {
    this.queue.push(input);
    clearTimeout(this.sending);
    this.sending = setTimeout(() => {
      while (this.queue.length) store.say({ do: "input", inputs: this.queue.splice(0, 150) });
    }, input.kind === "move" ? MOVE_MS : 25);
  }

  listenToPerson() {
    const stage = this.stage;
    let way = null;
    stage.addEventListener("contextmenu", (event) => this.isMine && event.preventDefault());
    stage.addEventListener("pointerdown", (event) => {
      if (!this.isMine || event.target.closest("form")) return;
      stage.focus();
      event.preventDefault();
      try { stage.setPointerCapture(event.pointerId); } catch { /* a made-up pointer */ }
      way = { from: this.point(event), x: event.clientX, y: event.clientY, points: [] };
    });
    stage.addEventListener("pointermove", (event) => {
      if (!this.isMine || !way) return;
      const point = this.point(event);
      if (way.points.length < 99) way.points.push([point.x, point.y]);
    });
    stage.addEventListener("pointerup", (event) => {
      if (!this.isMine || !way) return;
      const button = ["left", "middle", "right"][event.button] || "left";
      const point = this.point(event);
      const isDrag = Math.hypot(event.clientX - way.x, event.clientY - way.y) > 5;
      if (isDrag) this.send({ kind: "drag", ...way.from, way: [...way.points, [point.x, point.y]], button });
      else this.click(point, button);
      way = null;
    });
    stage.addEventListener("wheel", (event) => {
      if (!this.isMine) return;
      event.preventDefault();
      const notches = (delta) => Math.sign(delta) * Math.min(10, Math.max(1, Math.round(Math.abs(delta) / 100)));
      const dx = event.deltaX ? -notches(event.deltaX) : 0, dy = event.deltaY ? -notches(event.deltaY) : 0;
      this.send({ kind: "scroll", ...this.point(event), dx, dy });
    }, { passive: false });
    stage.addEventListener("keydown", (event) => {
      if (!this.isMine || event.isComposing) return;
      if (event.key === "Escape" && event.shiftKey) return stage.blur();
      if (["Control", "Shift", "Alt", "Meta", "Dead", "Process"].includes(event.key)) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "v") return; // comes as a paste
      event.preventDefault();
      const held = [["ctrl", event.ctrlKey], ["alt", event.altKey], ["shift", event.shiftKey], ["win", event.metaKey]];
      this.send({ kind: "key", key: event.key, modifiers: held.filter(([, is]) => is).map(([name]) => name) });
    });
    stage.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text/plain");
      if (!this.isMine || !text) return;
      event.preventDefault();
      this.send({ kind: "text", text: text.slice(0, 20000) });
    });
  }

  // clicks that follow each other fast on one place are one double or triple click
  click(point, button) {
    const last = this.lastClick;
    const now = performance.now();
    const isSame = last && now - last.at < 350 && Math.hypot(point.x - last.point.x, point.y - last.point.y) < 0.01
      && last.input.button === button && last.input.clicks < 3 && this.queue.includes(last.input);
    if (isSame) {
      last.input.clicks += 1;
      last.at = now;
      return;
    }
    const input = { kind: "click", ...point, button, clicks: 1 };
    this.lastClick = { at: now, point, input };
    this.queue.push(input);
    clearTimeout(this.sending);
    this.sending = setTimeout(() => this.queue.length && store.say({ do: "input", inputs: this.queue.splice(0, 150) }), 220);
  }

  sendTyped(event) {
    event.preventDefault();
    if (!this.typed.value) return this.send({ kind: "key", key: "Enter", modifiers: [] });
    this.send({ kind: "text", text: this.typed.value });
    this.typed.value = "";
  }
}

// ---------------------------------------------------------------- what was said and done

class Feed extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.build();
    this.listeners = {
      replay: () => this.clear(), opened: () => this.clear(), event: (event) => this.add(event.detail), view: () => this.draw(),
    };
    for (const [name, listener] of Object.entries(this.listeners)) store.addEventListener(name, listener);
    this.clear();
    for (const event of store.events) this.add(event);
  }

  disconnectedCallback() {
    for (const [name, listener] of Object.entries(this.listeners)) store.removeEventListener(name, listener);
  }

  build() {
    this.isMade = true;
    this.steps = new Map();
    this.log = make("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "What was said and done",
      tabindex: "0" });
    this.thought = make("p", { class: "thought", hidden: true, "aria-hidden": "true" });
    this.asks = make("div", { class: "asks", role: "region", "aria-label": "Questions of the agent", hidden: true });
    this.totals = make("p", { class: "totals" });
    this.undoList = make("ul");
    this.undo = make("details", { class: "undo", hidden: true }, make("summary", {}, "How to take the last steps back"), this.undoList);
    this.replaceChildren(this.log, this.thought, this.asks, this.undo, this.totals);
    // it stays at the end until a person scrolls up
    this.isPinned = true;
    for (const name of ["wheel", "touchmove", "pointerup", "keyup"]) {
      this.log.addEventListener(name, () => requestAnimationFrame(() => {
        this.isPinned = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
      }), { passive: true });
    }
    new ResizeObserver(() => this.follow()).observe(this.log);
    this.clear();
  }

  clear() {
    this.steps.clear();
    this.isPinned = true;
    this.asksKey = "";
    this.log.replaceChildren(make("p", { class: "empty" }, "Say what you want below. Each step shows here, with its reason."));
    this.draw();
  }

  follow() { if (this.isPinned) this.log.scrollTop = this.log.scrollHeight; }

  add(event) {
    const log = this.log;
    log.querySelector(":scope > .empty")?.remove();
    const card = this.card(event);
    if (card) log.append(card);
    while (log.childElementCount > MAX_CARDS) log.firstElementChild.remove();
    this.follow();
  }

  card(event) {
    switch (event.event) {
      case "said": return make("div", { class: "card said" }, event.text);
      case "decided": return this.step(event);
      case "step_done": return this.finish(event);
      case "calls_started": return this.calls(event);
      case "call_returned": return this.returned(event);
      case "note": return make("p", { class: `note is-${event.kind}` }, noted(event.kind.replace("_", " "), event.text));
      case "person": return make("p", { class: "note is-person" }, `You ${event.text}`);
      case "answered": return make("p", { class: "note" }, `You ${event.text} it`);
      case "ended": return this.ended(event);
      case "error": return make("div", { class: "card result is-error", role: "alert" }, event.text);
      default: return null;
    }
  }

  step(event) {
    const foot = make("p", { class: "foot" });
    const card = make("article", { class: "card step", "data-step": event.step, "aria-label": `Step ${event.step}` },
      make("header", {}, make("span", { class: "number" }, String(event.step)),
        make("span", { class: "action", dir: "auto" }, event.action || "(no words)")),
      event.thought.trim() ? make("details", {}, make("summary", {}, "Why"), make("p", { dir: "auto" }, event.thought.trim())) : null,
      make("details", {}, make("summary", {}, "Code"), make("pre", { tabindex: "0" }, event.code)), foot);
    this.steps.set(event.step, card);
    return card;
  }

  finish(event) {
    const card = this.steps.get(event.step);
    if (!card) return null;
    const total = Object.values(event.timings_s || {}).reduce((sum, seconds) => sum + seconds, 0);
    const foot = card.querySelector(":scope > .foot");
    foot.textContent = event.error ? event.error : `${total.toFixed(1)} s`;
    card.classList.toggle("has-error", !!event.error);
    return null;
  }

  calls(event) {
    const calls = event.calls.map((one) => make("details", {}, make("summary", {}, one.name),
      make("pre", { tabindex: "0" }, told(one.arguments))));
    const card = make("article", { class: "card step", "data-step": event.step, "aria-label": `Step ${event.step}` },
      make("header", {}, make("span", { class: "number" }, String(event.step)),
        make("span", { class: "action", dir: "auto" }, event.content.trim() || `Calls ${event.calls.map((one) => one.name).join(", ")}`)),
      ...calls, make("p", { class: "foot" }));
    this.steps.set(event.step, card);
    return card;
  }

  returned(event) {
    const images = (event.images || []).map((name, number) => make("img", { loading: "lazy",
      alt: `Image ${number + 1} of result ${event.number}`,
      src: `/api/sessions/${encodeURIComponent(store.session)}/images/${encodeURIComponent(name)}` }));
    const text = (event.shown || "").trim();
    return make("article", { class: `card returned${event.is_error ? " has-error" : ""}`, id: `result-${event.number}`,
      tabindex: "-1" }, make("details", { open: text.length < 400 }, make("summary", {}, `Result ${event.number}`),
      make("pre", { tabindex: "0" }, text || "(nothing was printed)")), ...images);
  }

  ended(event) {
    return make("article", { class: `card result is-${event.status}`, "aria-label": "Result" },
      make("header", {}, make("span", { class: "badge" }, event.status), make("span", { dir: "auto" }, event.reason)),
      event.answer ? make("div", { class: "answer", dir: "auto" }, ...answered(event.answer)) : null,
      make("p", { class: "foot" }, `${event.steps} steps · ${event.duration_s.toFixed(1)} s`));
  }

  draw() {
    const view = store.view;
    const thought = view && view.phase !== "ended" ? view.thought.trim() : "";
    this.thought.hidden = !thought;
    if (thought) this.thought.textContent = thought.slice(-600);
    const cost = view?.cost_usd ? ` · $${view.cost_usd.toFixed(4)}` : "";
    const totals = view?.tokens ? `${view.tokens.toLocaleString()} tokens${cost}` : "";
    if (this.totals.textContent !== totals) this.totals.textContent = totals;
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
    this.asks.hidden = !approvals.length;
    this.asks.replaceChildren(...approvals.map((approval) => this.question(approval)));
    this.asks.querySelector("article")?.focus({ preventScroll: true });
  }

  question(approval) {
    const say = (answer) => () => store.say({ do: "answer", approval: approval.id, answer });
    const button = (label, answer, style) => make("button", { type: "button", class: `tool ${style}`, onclick: say(answer) }, label);
    const where = approval.site ? ` on ${approval.site}` : "";
    return make("article", { class: "card ask", tabindex: "-1", role: "alertdialog", "aria-label": "The agent asks" },
      make("h3", {}, "May it do this?"), make("p", { class: "action", dir: "auto" }, approval.action || approval.reason),
      make("p", { class: "reason", dir: "auto" }, approval.reason),
      approval.has_crop ? make("img", { alt: `What it clicks: ${approval.target || "unknown"}`,
        src: `/api/sessions/${encodeURIComponent(store.session)}/approvals/${encodeURIComponent(approval.id)}/crop` }) : null,
      approval.target ? make("p", { class: "target", dir: "auto" }, `It lands on: ${approval.target}`) : null,
      make("details", {}, make("summary", {}, "Code"), make("pre", { tabindex: "0" }, approval.code)),
      store.view?.policy ? make("p", { class: "reason" }, `${store.view.policy} A sentence below says no, and what to do instead.`) : null,
      make("div", { class: "answers" }, button("Allow once", "once", "primary"),
        approval.risk === "take_over" ? make("button", { type: "button", class: "tool", onclick: () => store.say({ do: "take_over" }) },
          "Take over") : button(`Allow such${where}`, "site", ""),
        button("Deny", "deny", "danger")));
  }
}

function noted(kind, text) { return text.startsWith(kind) ? text : `${kind}: ${text}`; }

function told(text) {
  try {
    const values = Object.values(JSON.parse(text));
    return values.length === 1 ? String(values[0]) : text;
  } catch { return text; }
}

// lines between bars become a table; all else stays as it is written
function answered(text) {
  const pieces = [];
  let rows = [], words = [];
  const flush = () => {
    if (words.join("").trim()) pieces.push(make("p", {}, ...cited(words.join("\n").trim())));
    if (rows.length) {
      const row = (tag) => (cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, ...cited(cell.trim()))));
      pieces.push(make("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
        make("table", {}, ...rows.slice(0, 1).map(row("th")), ...rows.slice(1).map(row("td")))));
    }
    rows = []; words = [];
  };
  for (const line of text.split("\n")) {
    const isRow = /^\s*\|.*\|\s*$/.test(line);
    if (isRow !== !!rows.length && (rows.length || isRow)) flush();
    if (isRow && /^[\s|:-]+$/.test(line)) continue;
    if (isRow) rows.push(line.trim().slice(1, -1).split("|"));
    else if (!/^```\w*$/.test(line.trim())) words.push(line);
  }
  flush();
  return pieces;
}

// [^3^] leads to result 3, [^3.1^] to its first image, [^t001.0^] to what a sub-agent found
function cited(text) {
  return text.split(/(\[\^(?:t[\w-]+\.)?\d+(?:\.\d+)?\^\])/).map((piece) => {
    const found = /^\[\^((?:t[\w-]+\.)?\d+)(?:\.\d+)?\^\]$/.exec(piece);
    if (!found) return piece;
    const mark = found[1];
    return make("a", { href: `#result-${mark}`, class: "cite", "aria-label": `Evidence ${mark}`, onclick: (event) => {
      event.preventDefault();
      openEvidence(mark, event.target.closest("article"));
    } }, mark);
  });
}

async function openEvidence(mark, answer) {
  let card = document.getElementById(`result-${mark}`);
  if (!card) {
    const path = `/sessions/${encodeURIComponent(store.session)}/evidence/${encodeURIComponent(mark)}`;
    const found = await call("GET", path).catch((error) => ({ tool: "", arguments: "", text: error.message }));
    card = make("article", { class: "card returned", id: `result-${mark}`, tabindex: "-1" },
      make("details", {}, make("summary", {}, `Result ${mark}: ${found.tool} ${told(found.arguments)}`),
        make("pre", { tabindex: "0" }, found.text || "(nothing)")));
    answer.after(card);
  }
  card.querySelector("details")?.setAttribute("open", "");
  card.scrollIntoView({ block: "center" });
  card.focus();
}

// <assistant-goto session="..."> comes from the page's own handlers: open that session
class Goto extends HTMLElement {
  static observedAttributes = ["session", "nonce-number"];
  connectedCallback() { this.go(); }
  attributeChangedCallback() { if (this.isConnected) this.go(); }
  go() { const id = this.getAttribute("session"); if (id) store.open(id); }
}

customElements.define("assistant-sessions", Sessions);
customElements.define("assistant-screen", Screen);
customElements.define("assistant-feed", Feed);
customElements.define("assistant-goto", Goto);
