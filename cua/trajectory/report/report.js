"use strict";
(() => {
  const steps = [...document.querySelectorAll("article.step")];
  const frames = [...document.querySelectorAll(".frame")];
  const zoom = document.querySelector("dialog.zoom");
  let now = -1;

  function select(index, scroll) {
    if (index < 0 || index >= steps.length) return;
    if (now >= 0) { steps[now].classList.remove("now"); frames[now].classList.remove("now"); }
    now = index;
    steps[now].classList.add("now");
    frames[now].classList.add("now");
    const film = frames[now].parentElement;
    film.scrollTo({ left: frames[now].offsetLeft - film.clientWidth / 2 + frames[now].offsetWidth / 2 });
    if (scroll) {
      jumped = performance.now();
      steps[now].scrollIntoView({ block: "start" });
    }
    if (zoom.open) enlarge();
  }

  function enlarge() {
    const step = steps[Math.max(now, 0)];
    const figure = step.querySelector("figure"), title = step.querySelector("h2");
    if (!figure) { zoom.close(); return; }
    const caption = document.createElement("p"), number = document.createElement("b");
    number.textContent = step.dataset.number;
    caption.append(number, title ? title.textContent : "");
    zoom.replaceChildren(figure.cloneNode(true), caption);
    if (!zoom.open) zoom.showModal();
  }

  // The step that stands nearest below the film strip is the current one, unless a key just chose another.
  let jumped = 0, waiting = false;
  function follow() {
    waiting = false;
    if (performance.now() - jumped < 150 || zoom.open) return;
    let best = -1, distance = Infinity;
    steps.forEach((step, index) => {
      const box = step.getBoundingClientRect();
      const away = box.top > 120 ? box.top - 120 : box.bottom < 160 ? 160 - box.bottom + 1e5 : 0;
      if (away < distance) { distance = away; best = index; }
    });
    if (best !== now) select(best, false);
  }
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(follow); } }, { passive: true });

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const go = { j: 1, ArrowRight: 1, ArrowDown: zoom.open ? 1 : 0, k: -1, ArrowLeft: -1, ArrowUp: zoom.open ? -1 : 0 }[event.key];
    if (go) select(Math.min(Math.max(now + go, 0), steps.length - 1), true);
    else if (event.key === "Home") select(0, true);
    else if (event.key === "End") select(steps.length - 1, true);
    else if (event.key === "Enter" && !event.target.closest("a, summary")) zoom.open ? zoom.close() : enlarge();
    else if (event.key === "m") document.body.classList.toggle("no-marks");
    else return;
    event.preventDefault();
  });

  frames.forEach((frame, index) => frame.addEventListener("click", (event) => {
    event.preventDefault();
    history.replaceState(null, "", frame.hash);
    select(index, true);
  }));
  steps.forEach((step, index) => {
    const figure = step.querySelector("figure");
    if (figure) figure.addEventListener("click", () => { select(index, false); enlarge(); });
  });
  zoom.addEventListener("click", () => zoom.close());

  const wanted = steps.findIndex((step) => "#" + step.id === location.hash);
  if (steps.length) select(Math.max(wanted, 0), wanted > 0);
})();
