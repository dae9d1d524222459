// Draws a problem on a page of MiniWoB++, and tells the env when the page has judged it.
// Returns null where the page cannot be restarted, { fault } when it does not get ready, else { instruction }.
async ({ token, seed, limit_ms, wait_ms, binding, is_restart, hides }) => {
  const key = Symbol.for("k25.miniwob");
  const until = performance.now() + wait_ms;
  const wait = async (isThere) => {
    while (!isThere()) {
      if (performance.now() > until) return false;
      await new Promise((go) => setTimeout(go, 4));
    }
    return true;
  };

  // what an episode leaves behind that the page's own start does not undo
  const forget = () => {
    clearTimeout(core.EP_TIMER);
    core.EP_TIMER = null;
    window.jQuery?.(":animated").stop(true, true);
    document.activeElement?.blur();
    for (const element of document.querySelectorAll("[data-tampered]")) delete element.dataset.tampered;
    for (const element of document.querySelectorAll("*")) {
      if (element.scrollTop || element.scrollLeft) element.scrollTo(0, 0);
    }
    core.wob_scores = [];
    core.wob_latest = "-";
    WOB_EPISODE_ID = 0;
  };

  const emptyClipboard = () => {
    const put = (event) => {
      event.clipboardData.setData("text/plain", "");
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    addEventListener("copy", put, { capture: true, once: true });
    document.execCommand("copy");
    removeEventListener("copy", put, { capture: true });
  };

  if (is_restart && !window[key]) return null;
  if (!await wait(() => window.core?.cover_div)) return { fault: "it did not load" };
  if (!window[key]) {
    const own = { start: core.startEpisodeReal, end: core.endEpisode, report: window[binding], token };
    delete window[binding];
    Object.defineProperty(window, key, { value: own });
    core.startEpisodeReal = () => {}; // a click on the START cover would draw another problem and wipe the verdict
    core.endEpisode = (...all) => {
      const isRunning = core.EP_TIMER !== null;
      own.end(...all);
      if (isRunning) own.report(own.token, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_REASON);
    };
    document.head.append(Object.assign(document.createElement("style"), { textContent: hides }));
  } else {
    forget();
  }
  const own = window[key];
  own.token = token;
  localStorage.clear();
  sessionStorage.clear();
  emptyClipboard();
  Math.seedrandom(seed);
  core.EPISODE_MAX_TIME = limit_ms;
  own.start.call(core);
  scrollTo(0, 0);
  if (hides) core.clearTimer(); // the clock writes to the page once a second
  if (!await wait(() => WOB_TASK_READY)) return { fault: "it did not get ready" };
  const said = core.getUtterance();
  return { instruction: typeof said === "string" ? said : said.utterance };
}
