// What the env wants to know of a page: is it at rest, or on its way to somewhere else?
(() => {
  const now = performance.now.bind(performance); // the page may replace it
  const state = { mutated: 0, leaving: 0, choosing: 0, acted: -Infinity };

  // Not navigator.userActivation: each script that the env evaluates activates the page.
  const ACTIVE_MS = 5000; // as the transient activation of Chrome
  const onGesture = (event) => { if (event.isTrusted) state.acted = now(); };
  const add = addEventListener.bind(window), kept = [];
  const listen = (type, react) => { kept.push([type, react]); add(type, react, true); };
  for (const type of ["mousedown", "pointerdown", "pointerup", "touchend", "keydown"]) listen(type, onGesture);
  // document.open() removes all listeners and replaces the root
  new MutationObserver(() => kept.forEach(([type, react]) => add(type, react, true))).observe(document, { childList: true });

  // A browser without a PDF viewer leaves an embedded PDF out. As a frame it is loaded, and drawn by the env.
  const hasViewer = navigator.pdfViewerEnabled;
  if (!hasViewer) Object.defineProperty(Navigator.prototype, "pdfViewerEnabled", { get: () => true, configurable: true });
  const isPdf = (element, address) => {
    const type = (element.getAttribute("type") ?? "").toLowerCase();
    return address && (type ? type === "application/pdf" : /^([^?#]*\.pdf([?#]|$)|data:application\/pdf[;,])/i.test(address));
  };
  // A data: address in a frame becomes a download of no known frame; a blob is shown in the one that holds it.
  const loadable = (address) => {
    if (!/^data:application\/pdf[;,]/i.test(address)) return address;
    const [head, data] = [address.slice(0, address.indexOf(",")), address.slice(address.indexOf(",") + 1).split("#")[0]];
    try {
      const bytes = unescape(data);
      const raw = /;base64$/i.test(head) ? atob(bytes) : bytes;
      return URL.createObjectURL(new Blob([Uint8Array.from(raw, (char) => char.charCodeAt(0))], { type: "application/pdf" }));
    } catch { return address; }
  };
  const frameUp = () => {
    if (hasViewer) return;
    for (const element of [...document.embeds]) {
      if (!isPdf(element, element.getAttribute("src"))) continue;
      element.type = "text/html";
      element.src = loadable(element.getAttribute("src"));
    }
    for (const element of [...document.getElementsByTagName("iframe")]) {
      const address = element.getAttribute("src") ?? "", found = loadable(address);
      if (found !== address) element.src = found;
    }
    for (const element of [...document.getElementsByTagName("object")]) {
      if (!isPdf(element, element.getAttribute("data"))) continue;
      const copy = element.cloneNode(true); // one that shows its fallback does not load again
      copy.type = "text/html";
      copy.data = loadable(element.getAttribute("data"));
      element.replaceWith(copy);
    }
  };

  new MutationObserver(() => { state.mutated = now(); frameUp(); }).observe(document, {
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

  const isAnimating = () => { // a page may replace the methods of arrays
    const all = document.getAnimations();
    for (let i = 0; i < all.length; i++) if (isPassing(all[i])) return true;
    return false;
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
      is_animating: isAnimating(),
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
  look.choose = () => { state.choosing = now(); };
  look.listen = (type, react) => listen(type, react);
  look.isActive = () => now() - state.acted < ACTIVE_MS;
  Object.defineProperty(window, key, { value: Object.freeze(look) });
})();
