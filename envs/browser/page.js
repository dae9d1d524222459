// What the env wants to know of a page: is it at rest, or on its way to somewhere else?
(() => {
  const now = () => performance.now();
  const state = { mutated: 0, leaving: 0, choosing: 0 };

  new MutationObserver(() => { state.mutated = now(); }).observe(document, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });

  if (window.navigation) {
    const stay = () => { state.leaving = 0; };
    navigation.addEventListener("navigate", (event) => {
      if (event.hashChange || event.downloadRequest !== null || event.destination.sameDocument) return;
      state.leaving = now();
    });
    navigation.addEventListener("navigatesuccess", stay);
    navigation.addEventListener("navigateerror", stay);
  }

  addEventListener("click", (event) => {
    const field = event.composedPath()[0];
    if (field instanceof HTMLInputElement && field.type === "file" && !field.disabled) state.choosing = now();
  }, true);

  const isPassing = (animation) => {
    if (animation.playState !== "running" || !animation.effect) return false;
    const timing = animation.effect.getComputedTiming();
    const left = timing.endTime - (timing.localTime ?? 0);
    return Number.isFinite(left) && left > 0 && left < 1000;
  };

  const key = Symbol.for("k25");
  const look = () => {
    const at = now();
    const found = {
      age_ms: at - state.mutated,
      leaving_ms: state.leaving ? at - state.leaving : 0,
      choosing_ms: state.choosing ? at - state.choosing : 0,
      is_loading: document.readyState === "loading",
      is_complete: document.readyState === "complete",
      is_animating: document.getAnimations().some(isPassing),
      title: document.title,
    };
    for (let i = 0; i < Math.min(frames.length, 20); i++) {
      let inner;
      try { inner = frames[i][key]?.(); } catch { continue; } // another origin
      if (!inner) continue;
      found.age_ms = Math.min(found.age_ms, inner.age_ms);
      found.choosing_ms ||= inner.choosing_ms;
      found.is_animating ||= inner.is_animating;
    }
    return found;
  };
  const later = setTimeout.bind(window);
  // what the last input has put in the queue (a form on its way, a timer of 0 s) goes first
  look.soon = () => new Promise((answer) => later(() => answer(look())));
  Object.defineProperty(window, key, { value: look });
})();
