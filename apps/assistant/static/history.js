// History: all recorded runs in a grid, filters and search; one opens in place, with its film strip.

import { MODES, button, call, icon, inWords, iconButton, make, stepsOf, store } from "./store.js";

const MAX_RUNS = 200;
const OVER = ["succeeded", "failed", "unverified"];
const EXPORTS = { report: "Report", record: "Record", atif: "ATIF" };
const SCREEN_EXPORTS = { mp4: "Film (mp4)", gif: "Film (gif)", osworld: "OSWorld" };
const DAYS = [["", "Any date"], ["1", "Last day"], ["7", "Last 7 days"], ["30", "Last 30 days"]];
const KINDS = { browser: "Browser", desktop: "Desktop", tools: "Files and tools" };

const path = (run, more) => `/api/runs/${encodeURIComponent(run)}/${more}`;
const dated = (run) => new Date(run.started_at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
const about = (run) => [dated(run), MODES[run.mode], stepsOf(run.num_steps), `${Math.round(run.duration_s)} s`, run.model.split("/").pop()].filter(Boolean).join(" · ");
const badge = (run) => make("span", { class: `badge is-${run.status}` }, inWords(run.status));

class History extends HTMLElement {
  connectedCallback() {
    this.runs = [];
    const redraw = () => this.draw();
    const pick = (label) => make("select", { class: "pick", "aria-label": label, onchange: redraw });
    this.search = make("input", { type: "search", "aria-label": "Search", placeholder: "Words of the instruction", oninput: () => {
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.load(), 250);
    } });
    this.picks = { status: pick("State"), mode: pick("Mode of the run"), env: pick("Kind"), model: pick("Model"), days: pick("Date") };
    this.picks.days.append(...DAYS.map(([value, label]) => make("option", { value }, label)));
    this.grid = make("div", { class: "grid" });
    this.one = make("div", { class: "run", hidden: true });
    this.head = make("header", { class: "filters" }, make("h2", {}, "History"), this.search, ...Object.values(this.picks));
    this.replaceChildren(this.head, this.grid, this.one);
    store.follow({ page: ({ detail }) => detail === "history" && this.back() });
  }

  back() {
    this.one.hidden = true;
    this.head.hidden = this.grid.hidden = false;
    return this.load();
  }

  async load() {
    const search = this.search.value;
    if (!this.runs.length) this.grid.replaceChildren(...Array.from({ length: 6 }, () => make("div", { class: "run-card is-loading" })));
    try {
      const runs = await call("GET", `/runs?limit=${MAX_RUNS}&search=${encodeURIComponent(search)}`);
      if (search !== this.search.value) return; // a later search is on its way
      this.runs = runs;
    } catch (error) {
      return this.grid.replaceChildren(make("p", { class: "problem" }, error.message));
    }
    this.offer("status", "Any state", inWords);
    this.offer("mode", "Any mode", (mode) => MODES[mode]);
    this.offer("env", "Any kind", (kind) => KINDS[kind] || kind);
    this.offer("model", "Any model", (model) => model.split("/").pop());
    this.draw();
  }

  offer(name, all, label) {
    const select = this.picks[name], chosen = select.value;
    const found = [...new Set([...this.runs.map((run) => run[name]), chosen].filter(Boolean))].sort(); // a search keeps what was chosen
    select.replaceChildren(make("option", { value: "" }, all), ...found.map((value) => make("option", { value }, label(value))));
    select.value = chosen;
  }

  draw() {
    const since = this.picks.days.value ? Date.now() / 1000 - 86400 * Number(this.picks.days.value) : 0;
    const fits = (run) => ["status", "mode", "env", "model"].every((name) => !this.picks[name].value || run[name] === this.picks[name].value);
    const shown = this.runs.filter((run) => fits(run) && run.started_at >= since);
    const none = this.runs.length || this.search.value ? "No run fits." : "No runs yet.";
    this.grid.replaceChildren(...(shown.length ? shown.map((run) => this.card(run)) : [make("p", { class: "empty" }, none)]));
  }

  card(run) {
    const words = run.instruction.split(/\s+/).join(" ").trim() || "(no words)";
    const image = run.env !== "tools" ? make("img", { alt: "", loading: "lazy", src: path(run.id, "thumbnail"),
      onerror: () => image.replaceWith(icon("code")) }) : icon("code");
    return make("button", { type: "button", class: "run-card", "aria-label": `Open ${words.slice(0, 120)}`, onclick: () => this.open(run.id) },
      make("span", { class: "picture" }, image), make("strong", {}, words.slice(0, 200)), badge(run), make("span", { class: "meta" }, about(run)));
  }

  async open(id) {
    this.head.hidden = this.grid.hidden = true;
    this.one.hidden = false;
    const back = iconButton("back", "Back to all runs", () => this.back());
    this.one.replaceChildren(back);
    const run = await call("GET", `/runs/${encodeURIComponent(id)}`).catch((error) => ({ error: error.message }));
    if (run.error) return this.one.append(make("p", { class: "problem" }, run.error));
    const act = (label, more, style) => button(label, () => this.act(id, more), style);
    const names = Object.entries({ ...EXPORTS, ...(run.is_tool_run ? {} : SCREEN_EXPORTS) });
    this.step = make("div", { class: "step-view" });
    const slider = run.steps.length > 1 ? make("input", { type: "range", min: "1", max: String(run.steps.length), value: "1",
      "aria-label": "Step", oninput: () => this.showStep(run, Number(slider.value)) }) : null;
    this.one.append(make("h2", { dir: "auto" }, run.instruction.slice(0, 300)),
      make("p", { class: "meta" }, badge(run), ` ${about(run)}`), run.reason ? make("p", { class: "reason", dir: "auto" }, run.reason) : null,
      make("div", { class: "answers" }, act("Run again", "again", "primary"), OVER.includes(run.status) ? "" : act("Resume", "resume", ""),
        ...names.map(([kind, label]) => make("a", { class: "tool", href: path(id, `export/${kind}`), download: true }, label)),
        button("Delete", () => this.delete(id), "danger")),
      slider || "", this.step);
    this.showStep(run, 1);
    back.focus();
  }

  showStep(run, number) {
    const step = run.steps[number - 1];
    if (!step) return this.step.replaceChildren(make("p", { class: "empty" }, "This run has no steps."));
    const folded = (label, text) => (text ? make("details", {}, make("summary", {}, label), make("pre", { tabindex: "0" }, text)) : null);
    const line = (text, style = "") => make("p", { class: style, dir: "auto" }, text);
    this.step.replaceChildren(make("div", {}, step.has_image ? make("img", { alt: `Screen at step ${step.index}`,
      src: path(run.id, `steps/${step.index}/image`) }) : ""),
    make("div", {}, make("h3", { dir: "auto" }, `${step.index}. ${step.action || ""}`), ...(step.notes || []).map((text) => line(text)),
      step.error ? line(step.error, "problem") : "", ...[folded("Why", step.thought), folded("Code", step.code)].filter(Boolean),
      ...(step.done || []).map((text) => line(text, "meta"))));
  }

  async act(id, what) {
    try {
      store.open((await call("POST", `/runs/${encodeURIComponent(id)}/${what}`)).id);
    } catch (error) {
      this.one.prepend(make("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  async delete(id) {
    if (!confirm("Delete this run with all its images?")) return;
    await call("DELETE", `/runs/${encodeURIComponent(id)}`).catch((error) => store.tell("problem", error.message));
    await this.back();
  }
}

customElements.define("assistant-history", History);
