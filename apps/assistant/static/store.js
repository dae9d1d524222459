// The page's one connection to a session, and what its parts share.
// What models, pages and files say is set as text only, never as HTML.

export const PHASES = {
  ready: "Ready", starting: "Starting", working: "Working", pausing: "Finishing a step", paused: "Paused",
  asking: "Waiting for your answer", person: "You have the screen", stopping: "Stopping", ended: "Ended",
};
export const MODES = { instant: "Instant", thinking: "Thinking", agent: "Agent", swarm: "Swarm" };
const TOOLS = { ipython: "Python", shell: "Shell", files: "Files", view_image: "Image", search: "Search", browse: "Page", download: "Download",
  create_subagent: "New sub-agent", assign_task: "Sub-agent's answer" };
const RESULTS = {
  succeeded: "Done, checked", unverified: "Done, not checked", failed: "Not done", capped: "Stopped at a limit",
  stopped: "Stopped", error: "Error", interrupted: "Interrupted", running: "Running", damaged: "Unreadable",
};
const MAX_EVENTS = 3000;
const LIST_MS = 3000;
const WAITING = ["asking", "paused"];

export const toolName = (name) => TOOLS[name] || name || "";
// what a call printed, without the lines that stand for its images
export const shownText = (event) => (event.shown || "").replace(/^\[image \d+: \d+x\d+ px.*\]\n?/gm, "").trim();
export const isOnScreen = (mode) => mode === "instant" || mode === "thinking";
export const stepsOf = (number) => (number ? `${number} step${number === 1 ? "" : "s"}` : "first step not finished");
export const inWords = (status) => RESULTS[status] || status;

// of a session or its view: what it does, or how it ended, in words
export function stateOf(session) {
  if (session.phase !== "ended") return PHASES[session.phase];
  return session.result ? inWords(session.result.status) : "Not started";
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== ""));
  return element;
}

const ICONS = {
  menu: "M3 5h14M3 10h14M3 15h14", plus: "M10 4v12M4 10h12", close: "M5 5l10 10M15 5L5 15", send: "M10 16V4M5 9l5-5 5 5",
  attach: "M14 6l-6 6a2 2 0 0 0 3 3l6-6a4 4 0 0 0-6-6L4 10a6 6 0 0 0 8 8l5-5", back: "M12 4l-6 6 6 6",
  tasks: "M4 5h12M4 10h12M4 15h7", history: "M10 5v5l3 2M3.5 10a6.5 6.5 0 1 0 2-4.6M3 3v3h3", bell: "M5 14h10l-1-2V9a4 4 0 0 0-8 0v3zM9 16.5h2",
  settings: "M4 6h7M15 6h1M4 14h1M9 14h7M13 4v4M7 12v4", theme: "M15 12A6 6 0 0 1 8 5a6 6 0 1 0 7 7z",
  click: "M5 4l10 5-4 1.5L9 15z", type: "M3 6h14v8H3zM6 11h8M6 8.5h1M9.5 8.5h1M13 8.5h1", scroll: "M10 3v14M6 7l4-4 4 4M6 13l4 4 4-4",
  wait: "M10 5v5l3 2M10 3a7 7 0 1 0 .01 0", done: "M4 10l4 4 8-8", code: "M7 6l-4 4 4 4M13 6l4 4-4 4", copy: "M7 7h9v9H7zM4 13V4h9",
};
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg"), path = document.createElementNS(space, "path");
  for (const [key, value] of Object.entries({ viewBox: "0 0 20 20", class: "icon", "aria-hidden": "true" })) drawing.setAttribute(key, value);
  path.setAttribute("d", ICONS[name]);
  drawing.append(path);
  return drawing;
}

export const button = (label, onclick, style = "", ...more) =>
  make("button", { type: "button", class: `tool ${style}`, onclick }, label, ...more);
export const iconButton = (name, label, onclick, style = "") =>
  make("button", { type: "button", class: `round ${style}`, "aria-label": label, title: label, onclick }, icon(name));

export async function call(method, path, body, type = "application/json") {
  const isJson = type === "application/json";
  const answer = await fetch(`/api${path}`, {
    method, headers: body ? { "content-type": type } : {}, body: body && (isJson ? JSON.stringify(body) : body),
  });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error || found.detail?.[0]?.msg || `the app answered ${answer.status}`);
  return found;
}

export const sessionPath = (more) => `/api/sessions/${encodeURIComponent(store.session)}/${more}`;

class Store extends EventTarget {
  constructor() {
    super();
    this.session = new URL(location.href).searchParams.get("session") || "";
    this.page = "work";
    this.view = null;
    this.events = []; // and the newest image: for parts of the page that come later than they do
    this.frame = null;
    this.sessions = [];
    this.socket = null;
    this.isLost = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.connect()));
    this.list();
    setInterval(() => this.list(), LIST_MS);
  }

  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  // listen while an element is in the page
  follow(listeners) {
    for (const [name, listener] of Object.entries(listeners)) this.addEventListener(name, listener);
    return () => { for (const [name, listener] of Object.entries(listeners)) this.removeEventListener(name, listener); };
  }

  async list() {
    try {
      this.sessions = await call("GET", "/sessions");
    } catch { return; }
    const isFirst = !this.isListed;
    this.isListed = true;
    if (!this.session) {
      const running = isFirst && this.sessions.find((session) => session.phase !== "ended");
      if (running) this.open(running.id, this.page);
    } else if (!this.sessions.some((session) => session.id === this.session)) {
      this.open("", this.page);
    } else if (!this.socket) this.connect();
    this.tellSessions();
  }

  // the title counts the sessions that wait; a notification names one that has begun to
  tellSessions() {
    const waiting = this.sessions.filter((session) => WAITING.includes(session.phase));
    document.title = `${waiting.length ? `(${waiting.length}) ` : ""}K2.5 assistant`;
    const before = this.waiting || new Set();
    this.waiting = new Set(waiting.map((session) => session.id));
    if (document.hidden && window.Notification?.permission === "granted") {
      for (const session of waiting.filter((one) => !before.has(one.id))) {
        const note = new Notification("The agent waits for you", { body: session.title, tag: session.id });
        note.onclick = () => { window.focus(); this.open(session.id); };
      }
    }
    this.tell("sessions");
  }

  show(page) {
    this.page = page;
    document.body.dataset.page = page;
    this.tell("page", page);
  }

  open(id, page = "work") {
    this.show(page);
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

  async close(id) {
    await call("DELETE", `/sessions/${encodeURIComponent(id)}`).catch((error) => this.tell("problem", error.message));
    if (id === this.session) this.open("");
    else this.list();
  }

  rest() {
    const socket = this.socket;
    this.socket = null;
    if (socket) socket.close();
  }

  connect() {
    if (!this.session || this.socket || document.hidden) return;
    const id = this.session;
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${sessionPath("live")}`);
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
      const listed = this.sessions.find((session) => session.id === id);
      if (listed && (listed.phase !== news.view.phase || listed.step !== news.view.step)) {
        const { phase, result, step } = news.view;
        Object.assign(listed, { phase, result, step });
        this.tellSessions();
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

export const store = new Store();
