// The stage: status line, live screen, film strip of the steps; results and sub-agents where there is no screen.

import { button, call, isOnScreen, make, sessionPath, shownText, stateOf, store, toolName } from "./store.js";

const MOVE_MS = 60;
const MAX_RESULTS = 60;
const MAX_EVIDENCE = 20;
const reduced = matchMedia("(prefers-reduced-motion: reduce)");
const IDLE = ["ready", "ended", "stopping"];

function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

class Screen extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.build();
    this.leave = store.follow({
      view: () => this.draw(), opened: () => this.clear(), replay: () => this.clearSteps(),
      frame: (event) => this.show(event.detail), problem: (event) => this.warn(event.detail), event: (event) => this.add(event.detail),
    });
    this.clock = setInterval(() => this.drawFacts(), 1000);
    this.clearSteps();
    store.events.forEach((event) => this.add(event));
    if (store.frame) this.show(store.frame);
  }

  disconnectedCallback() {
    clearInterval(this.clock);
    this.leave();
  }

  build() {
    this.isMade = true;
    this.queue = [];
    this.tools = new Map(); // of the calls, by their ids
    this.status = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.facts = make("span", { class: "facts" });
    this.place = make("span", { class: "place" });
    this.image = make("img", { class: "live", alt: "", draggable: "false", hidden: true });
    this.past = make("img", { class: "past", alt: "", hidden: true });
    this.empty = make("p", { class: "empty" });
    this.start = this.makeStart();
    this.pointer = make("span", { class: "pointer", "aria-hidden": "true", hidden: true });
    this.ring = make("span", { class: "ring", "aria-hidden": "true", hidden: true });
    this.stage = make("div", { class: "stage" }, this.image, this.past, this.empty, this.ring, this.pointer);
    this.problem = make("p", { class: "problem", role: "alert", hidden: true });
    this.pauseButton = button("Pause", () => store.say({ do: this.isHeld ? "resume" : "pause" }));
    this.takeButton = button("Take over", () => store.say({ do: this.isMine ? "resume" : "take_over" }));
    this.stopButton = button("Stop", () => store.say({ do: "stop" }), "danger");
    this.typed = make("input", { type: "text", "aria-label": "Text to type into the screen", autocomplete: "off",
      placeholder: "Type into the screen; Enter sends" });
    this.typing = make("form", { class: "typing", hidden: true, onsubmit: (event) => this.sendTyped(event) }, this.typed,
      make("button", { type: "submit", class: "tool" }, "Type"),
      make("span", { class: "hint" }, "Or click the image and type. Shift+Esc leaves it."));
    this.count = make("p", { class: "meta" });
    this.children_ = make("div", { class: "children" });
    this.swarm = make("section", { class: "swarm", "aria-label": "Sub-agents", hidden: true }, this.count, this.children_);
    this.results = make("div", { class: "results", hidden: true });
    this.none = make("p", { class: "empty none", hidden: true }, "Results and images will show here.");
    this.film = make("div", { class: "film", role: "group", "aria-label": "Steps" });
    this.liveButton = button("Live", () => this.look(null), "primary live-again");
    this.liveButton.hidden = true;
    this.frame = make("div", { class: "frame" }, this.stage, this.start, this.swarm, this.results, this.none);
    this.replaceChildren(
      make("div", { class: "bar" }, this.status, this.facts, this.place, make("div", { class: "tools", role: "group",
        "aria-label": "Control of the run" }, this.pauseButton, this.takeButton, this.stopButton)),
      make("div", { class: "over" }, this.problem), this.frame, this.typing,
      make("div", { class: "strip-row" }, this.film, this.liveButton));
    this.image.addEventListener("load", () => {
      this.natural = { width: this.image.naturalWidth, height: this.image.naturalHeight };
      this.mark();
    });
    new ResizeObserver(() => this.mark()).observe(this.image);
    new ResizeObserver(() => this.followFilm()).observe(this.film);
    this.film.addEventListener("keydown", (event) => this.moveInFilm(event));
    for (const name of ["wheel", "touchmove", "pointerup", "keyup"]) {
      this.film.addEventListener(name, () => requestAnimationFrame(() => {
        this.isFilmHeld = this.film.scrollWidth - this.film.scrollLeft - this.film.clientWidth > 8;
      }), { passive: true });
    }
    this.listenToPerson();
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable], assistant-screen .stage");
      if (event.key === "Escape" && !isTyping && store.view?.phase === "working") store.say({ do: "pause" });
    });
  }

  // three ways in
  makeStart() {
    const examples = make("div", { class: "ways" });
    call("GET", "/about").then(({ examples: found }) => examples.replaceChildren(...found.map((example) =>
      button(example.title, () => store.tell("fill", example.request)))), (error) => this.warn(error.message));
    const card = (title, about, ...more) => make("section", { class: "way" }, make("h2", {}, title), make("p", {}, about), ...more);
    return make("div", { class: "start" },
      card("Watch it work", "It fills in an expense page. No key is needed.",
        button("Try the practice task", () => store.tell("practice"), "primary")),
      card("Connect a model", "Use any endpoint that speaks the OpenAI protocol.",
        button("Open the form", () => store.show("settings"))),
      card("Start from an example", "It fills in the instruction; you send it.", examples));
  }

  clear() {
    this.image.hidden = true;
    this.dataset.frames = "0";
    this.warn("");
    this.clearSteps();
    this.draw();
  }

  clearSteps() {
    this.look(null);
    this.film.replaceChildren();
    this.results.replaceChildren();
  }

  add(event) {
    if (event.event === "observed" && event.image) this.addStep(event);
    if (event.event === "calls_started") event.calls.forEach((one) => this.tools.set(one.id, one.name));
    if (event.event === "call_returned") this.addResult(event);
  }

  addStep(event) {
    const image = make("img", { alt: "", loading: "lazy", src: sessionPath(`images/${encodeURIComponent(event.image)}`) });
    const step = make("button", { type: "button", class: "cell", "aria-label": `Step ${event.step}`, "aria-pressed": "false", tabindex: "-1",
      onclick: () => this.look(event, step) }, image, make("span", { "aria-hidden": "true" }, String(event.step)));
    this.film.append(step);
    while (this.film.childElementCount > 300) this.film.firstElementChild.remove();
    this.markCell();
    this.followFilm();
  }

  // the film is one stop of the Tab key, at the step on the stage; the arrow keys go through the steps
  markCell() {
    const cells = [...this.film.children];
    const chosen = cells.find((cell) => cell.getAttribute("aria-pressed") === "true") || cells.at(-1);
    for (const cell of cells) cell.tabIndex = cell === chosen ? 0 : -1;
    return chosen;
  }

  moveInFilm(event) {
    const cells = [...this.film.children], at = cells.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: cells.length - 1 }[event.key];
    if (at < 0 || !cells[to]) return;
    event.preventDefault();
    cells[to].click();
    cells[to].focus();
  }

  // the film stays at its end until a person scrolls it
  followFilm() { if (!this.isFilmHeld && !this.looked) this.film.scrollLeft = this.film.scrollWidth; }

  // an earlier step on the stage; null: the live screen again
  look(event, cell = null) {
    this.looked = event;
    if (!event) this.isFilmHeld = false;
    for (const one of this.film.children) one.setAttribute("aria-pressed", String(one === cell));
    const newest = this.markCell();
    if (this.liveButton === document.activeElement) newest?.focus(); // it goes
    this.past.hidden = !event;
    this.liveButton.hidden = !event;
    if (event) {
      const small = sessionPath(`images/${encodeURIComponent(event.image)}`);
      this.past.onerror = () => { this.past.onerror = null; this.past.src = small; }; // the record has it only later
      this.past.src = event.run ? `/api/runs/${encodeURIComponent(event.run)}/steps/${event.step}/image` : small;
      this.past.alt = `Screen at step ${event.step}`;
    }
    this.draw();
    this.followFilm();
  }

  addResult(event) {
    const images = (event.images || []).map((name, number) => make("img", { loading: "lazy",
      alt: `Image ${number + 1} of result ${event.number}`, src: sessionPath(`images/${encodeURIComponent(name)}`) }));
    const text = shownText(event), tool = this.tools.get(event.id);
    if (tool === "create_subagent") return; // there is nothing to see
    const title = [`Result ${event.number}`, toolName(tool)].filter(Boolean).join(" · ");
    this.results.prepend(make("section", { class: "way" }, make("h2", {}, title), ...images,
      text ? make("pre", { tabindex: "0" }, text.slice(0, 2000)) : null));
    while (this.results.childElementCount > MAX_RESULTS) this.results.lastElementChild.remove();
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
    const isOn = !!view && !IDLE.includes(phase);
    this.dataset.phase = phase;
    document.body.dataset.phase = phase;
    this.drawStatus(view, phase);
    this.drawFacts();
    const place = view ? view.url || view.tab || "" : "";
    if (this.place.textContent !== place) this.place.textContent = this.place.title = place;
    this.pauseButton.textContent = this.isHeld && !this.isMine ? "Resume" : "Pause";
    this.takeButton.textContent = this.isMine ? "Hand back" : "Take over";
    const hadFocus = [this.pauseButton, this.takeButton, this.stopButton].includes(document.activeElement);
    this.pauseButton.disabled = !isOn || phase === "starting" || this.isMine;
    this.takeButton.disabled = !isOn || !view.can_take_over || phase === "starting";
    this.stopButton.disabled = !isOn;
    if (hadFocus && !isOn) document.querySelector("assistant-composer textarea")?.focus(); // a disabled button loses it
    this.typing.hidden = !this.isMine;
    this.stage.classList.toggle("is-mine", this.isMine);
    if (this.isMine) {
      if (this.looked) this.look(null);
      this.stage.tabIndex = 0;
      this.stage.setAttribute("role", "application");
      this.stage.setAttribute("aria-label", "The agent's screen; mouse and keyboard go there. Shift+Escape leaves it.");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) this.stage.removeAttribute(name);
    }
    const hasScreen = !view || isOnScreen(view.mode);
    const [width, height] = view?.size_px || [1280, 720];
    this.style.setProperty("--width", width);
    this.style.setProperty("--height", height);
    this.empty.hidden = !this.image.hidden;
    this.empty.textContent = !view ? "" : phase === "starting" ? "Starting…" : view.error || "No image yet.";
    this.empty.classList.toggle("is-loading", phase === "starting");
    const about = view && view.has_screen ? `Screen, step ${view.step}${view.tab ? `: ${view.tab}` : ""}` : "";
    if (this.image.alt !== about) this.image.alt = about;
    this.start.hidden = !!store.session;
    this.stage.hidden = !store.session || !hasScreen;
    this.results.hidden = !view || hasScreen || !this.results.childElementCount;
    this.none.hidden = !view || hasScreen || !this.results.hidden || view.children.length > 0;
    this.film.parentElement.hidden = !store.session || !hasScreen;
    this.drawChildren(view ? view.children : []);
    this.mark();
  }

  drawStatus(view, phase) {
    const failed = view && phase === "ended" && (view.error || (view.result?.status === "error" && view.result.reason));
    const held = view?.touched && phase === "paused" ? `Paused: you used the ${view.touched}` : view ? stateOf(view) : "Ready";
    const text = store.isLost ? "Connection lost, trying again" : failed ? `${held}: ${failed.split("\n")[0]}` : held;
    if (this.status.textContent !== text) this.status.textContent = this.status.title = text;
    this.status.dataset.state = phase !== "ended" ? phase : view.result ? view.result.status : "not started";
  }

  drawFacts() {
    const view = store.view;
    const seconds = view?.phase === "ended" ? view.result?.duration_s : view?.started_at && Date.now() / 1000 - view.started_at;
    const cost = view?.cost_usd ? `$${view.cost_usd.toFixed(4)}` : view?.tokens ? `${view.tokens.toLocaleString()} tokens` : "";
    const facts = [this.looked ? `looking at step ${this.looked.step}` : view?.step ? `step ${view.step}` : "",
      seconds ? duration(seconds) : "", cost].filter(Boolean).join(" · ");
    if (this.facts.textContent !== facts) this.facts.textContent = facts;
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
      mark.hidden = !point || this.image.hidden || !!this.looked || this.isMine;
      if (!mark.hidden) {
        mark.style.left = `${box.left + point[0] * box.width}px`;
        mark.style.top = `${box.top + point[1] * box.height}px`;
      }
    }
    this.pointer.classList.toggle("is-still", reduced.matches);
  }

  drawChildren(children) {
    this.swarm.hidden = !children.length;
    const counts = new Map();
    for (const { state } of children) counts.set(state, (counts.get(state) || 0) + 1);
    const count = [`${children.length} sub-agent${children.length === 1 ? "" : "s"}`, ...[...counts].map(([state, number]) => `${number} ${state}`)].join(" · ");
    if (this.count.textContent !== count) this.count.textContent = count;
    while (this.children_.childElementCount > children.length) this.children_.lastElementChild.remove();
    children.forEach((child, at) => { // cards stay, so that a press of a button is not lost between two updates
      const card = this.children_.children[at] || this.children_.appendChild(this.makeChildCard());
      const key = JSON.stringify(child);
      if (card.dataset.key === key) return;
      Object.assign(card.dataset, { key, id: child.id, calls: child.calls });
      card.className = `child is-${child.state}`;
      const { image, name, task, state, last, evidence, orders } = card.parts;
      image.hidden = !child.image;
      if (child.image && image.dataset.name !== child.image) {
        image.dataset.name = child.image;
        image.src = sessionPath(`images/${encodeURIComponent(child.image)}`);
      }
      image.alt = `Newest image of ${child.id}`;
      const cost = child.cost_usd ? `${child.cost_usd.toFixed(4)} USD` : `${child.tokens} tokens`;
      name.textContent = `${child.id} ${child.name}`;
      task.textContent = task.title = child.task;
      state.textContent = `${child.state} · ${child.calls} ${child.calls === 1 ? "call" : "calls"} · ${cost}`;
      last.textContent = last.title = child.last;
      evidence.hidden = !child.calls;
      orders.hidden = !child.is_at_work;
      orders.setAttribute("aria-label", `Orders to ${child.id}`);
    });
  }

  makeChildCard() {
    const words = make("input", { type: "text", "aria-label": "New instruction", placeholder: "New instruction; Enter sends",
      autocomplete: "off", hidden: true });
    const orders = make("form", { class: "orders", hidden: true, onsubmit: (event) => {
      event.preventDefault();
      if (words.value.trim()) store.say({ do: "redirect_child", child: card.dataset.id, instruction: words.value.trim() });
      words.value = "";
      words.hidden = true;
    } }, button("Tell", () => { words.hidden = !words.hidden; words.focus(); }),
      button("Cancel", () => store.say({ do: "cancel_child", child: card.dataset.id }), "danger"), words);
    const list = make("div", { class: "list" });
    const evidence = make("details", { hidden: true, ontoggle: () => evidence.open && this.loadEvidence(card.dataset, list) },
      make("summary", {}, "Evidence"), list);
    const parts = { image: make("img", { loading: "lazy", hidden: true }), name: make("strong", { dir: "auto" }),
      task: make("span", { class: "task", dir: "auto" }), state: make("span"), last: make("span", { class: "last", dir: "auto" }), evidence, orders };
    const card = make("div", { class: "child" }, ...Object.values(parts));
    return Object.assign(card, { parts });
  }

  // results of a sub-agent's newest calls, as its citations open them
  async loadEvidence({ id, calls }, list) {
    const marks = Array.from({ length: Number(calls) }, (_, number) => `${id}.${number}`).slice(-MAX_EVIDENCE);
    const found = await Promise.all(marks.map((mark) => call("GET", `/sessions/${encodeURIComponent(store.session)}/evidence/${mark}`)
      .then((one) => make("pre", { tabindex: "0" }, `${mark} ${toolName(one.tool)}\n${one.text}`), () => null)));
    list.replaceChildren(...found.filter(Boolean));
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


customElements.define("assistant-screen", Screen);
