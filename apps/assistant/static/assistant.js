// The page around the live parts: sidebar with sessions and pages, theme, widths.

import "./composer.js";
import "./feed.js";
import "./history.js";
import "./screen.js";
import { icon, iconButton, make, stateOf, store } from "./store.js";

const PAGES = { tasks: "Tasks", history: "History", settings: "Settings" };
const NARROW = matchMedia("(max-width: 700px)");
const kept = (name) => localStorage.getItem(`assistant-${name}`);
const keep = (name, value) => localStorage.setItem(`assistant-${name}`, value);

class Sidebar extends HTMLElement {
  connectedCallback() {
    const entry = (name, label, onclick) =>
      make("button", { type: "button", class: "entry", "data-page": name, title: label, onclick }, icon(name), make("span", { class: "name" }, label));
    this.list = make("div", { class: "sessions", role: "group", "aria-label": "Sessions" });
    this.bell = entry("bell", "Notify me", () => this.askToNotify());
    this.replaceChildren(
      make("header", {}, make("h1", {}, "K2.5 assistant"), iconButton("menu", "Hide or show the sidebar", () => this.fold())),
      make("button", { type: "button", class: "entry new", title: "New", onclick: () => this.go(() => store.open("")) },
        icon("plus"), make("span", { class: "name" }, "New")),
      this.list,
      ...Object.entries(PAGES).map(([name, label]) => entry(name, label, () => this.go(() => store.show(name)))),
      make("footer", {}, this.bell, entry("theme", "Light or dark", () => switchTheme())));
    store.follow({ sessions: () => this.draw(), opened: () => this.draw(), page: () => this.draw() });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.isOut && this.slide(false));
    this.draw();
  }

  get isOut() { return document.body.classList.contains("has-drawer"); }

  slide(isOpen) {
    document.body.classList.toggle("has-drawer", isOpen);
    if (isOpen) this.querySelector(".entry.new").focus();
  }

  fold() {
    if (NARROW.matches) return this.slide(!this.isOut);
    keep("folded", document.body.classList.toggle("is-folded") ? "1" : "0");
  }

  go(act) {
    this.slide(false);
    act();
  }

  async askToNotify() {
    if (window.Notification && Notification.permission === "default") await Notification.requestPermission();
    this.draw();
  }

  draw() {
    const key = JSON.stringify([store.session, store.page, window.Notification?.permission,
      store.sessions.map((one) => [one.id, one.phase, one.title, one.step, one.result?.status])]);
    if (key === this.key) return;
    this.key = key;
    this.bell.hidden = window.Notification?.permission !== "default";
    this.querySelectorAll("[data-page]").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.page === store.page)));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.list.replaceChildren(...store.sessions.map((session) => this.row(session)));
    if (focused != null) this.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  }

  row(session) {
    const title = session.title || "…", step = session.step ? ` · step ${session.step}` : "";
    return make("div", { class: `session is-${session.phase}` },
      make("button", { type: "button", class: "entry", "data-id": session.id, title,
        "aria-pressed": String(session.id === store.session && store.page === "work"), onclick: () => this.go(() => store.open(session.id)) },
      make("span", { class: `dot is-${session.result?.status || ""}`, "aria-hidden": "true" }),
      make("span", { class: "name" }, make("span", { class: "title" }, title), make("span", { class: "state" }, `${stateOf(session)}${step}`))),
      iconButton("close", `Close ${title.slice(0, 60)}`, () => store.close(session.id), "small"));
  }
}

// the width of the conversation follows a drag of its edge, or the arrow keys
class Edge extends HTMLElement {
  connectedCallback() {
    for (const [name, value] of Object.entries({ role: "separator", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": "Width of the conversation", "aria-valuemin": "360", "aria-valuemax": "440" })) this.setAttribute(name, value);
    const set = (width) => {
      const px = Math.round(Math.min(440, Math.max(360, width)));
      document.body.style.setProperty("--talk", `${px}px`);
      this.setAttribute("aria-valuenow", String(px));
      keep("talk", px);
    };
    set(Number(kept("talk")) || 400);
    this.addEventListener("pointerdown", (event) => this.setPointerCapture(event.pointerId));
    this.addEventListener("pointermove", (event) => this.hasPointerCapture(event.pointerId) && set(innerWidth - event.clientX));
    this.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: 8, ArrowRight: -8 }[event.key];
      if (step) set(Number(this.getAttribute("aria-valuenow")) + step);
    });
  }
}

// <assistant-goto session="..."> comes from the page's own handlers: open that session
class Goto extends HTMLElement {
  static observedAttributes = ["session", "nonce-number"];
  connectedCallback() { this.go(); }
  attributeChangedCallback() { if (this.isConnected) this.go(); }
  go() { const id = this.getAttribute("session"); if (id) store.open(id); }
}

function setTheme() {
  const chosen = kept("theme");
  document.body.classList.toggle("dark", chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
}

function switchTheme() {
  keep("theme", document.body.classList.contains("dark") ? "light" : "dark");
  setTheme();
}

window.setAssistantTheme = setTheme; // Gradio sets its own when it has loaded
setTheme();
const foldByWidth = () => document.body.classList.toggle("is-folded", (kept("folded") || (innerWidth < 1200 ? "1" : "0")) === "1");
addEventListener("resize", foldByWidth);
foldByWidth();
customElements.define("assistant-sidebar", Sidebar);
customElements.define("assistant-edge", Edge);
customElements.define("assistant-goto", Goto);
const sidebar = make("assistant-sidebar", { role: "navigation", "aria-label": "Sessions and pages" });
document.body.prepend(make("div", { id: "shell" }, sidebar,
  make("div", { class: "veil", onclick: () => sidebar.slide(false) }),
  iconButton("menu", "Open the menu", () => sidebar.slide(true), "open-menu"),
  make("main", { class: "work" }, make("assistant-screen"), make("assistant-edge"),
    make("section", { class: "talk", "aria-label": "Conversation" }, make("assistant-feed"), make("assistant-composer"))),
  make("assistant-history")));
store.follow({ page: ({ detail }) => detail === "tasks" && document.querySelector("#tasks-shown")?.click() });
store.show("work");
store.tell("opened");
