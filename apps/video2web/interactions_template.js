// What the page does: each act has a state in which it is possible, and an element, found by its place on the page.
const acts = ACTS;
const own = location.pathname.split('/').pop() || 'index.html';
const reach = 8;
let shown = '';
let height = 10;
let timers = [];
let covering = 0;

const rootOf = (name) => (name ? document.getElementById(name).shadowRoot : document.body);
const boxOf = (element) => {
  const box = element.getBoundingClientRect();
  return { left: box.left + scrollX, top: box.top + scrollY, width: box.width, height: box.height };
};

const isAt = (box, x, y, pad) => x >= box.left - pad && x < box.left + box.width + pad
  && y >= box.top - pad && y < box.top + box.height + pad;

// The smallest element at a place, or near it, or the one that is most like a box there.
const find = (root, act) => findWithin(root, act, 0) || findWithin(root, act, reach);

function findWithin(root, act, pad) {
  let [best, least] = [null, Infinity];
  for (const element of root.querySelectorAll('*')) {
    const box = boxOf(element);
    if (!isAt(box, act.x, act.y, pad) || element.matches('template, script, link, .state, .state *')) continue;
    const off = act.box
      ? Math.abs(box.left - act.box[0]) + Math.abs(box.top - act.box[1])
        + Math.abs(box.width - act.box[2]) + Math.abs(box.height - act.box[3])
      : box.width * box.height;
    if (off <= least) [best, least] = [element, off];
  }
  return best;
}

// Lay a state over the page, or take away the one that lies there; '' is the page as it was.
function show(name, seconds, easing) {
  if (name === shown) return;
  const [old, next] = [shown, name].map((each) => each && document.getElementById(each));
  const timing = `opacity ${seconds}s ${easing || 'ease'}`;
  if (next) {
    next.style.cssText += `;display:block;transition:none;opacity:0;z-index:${(height += 1)}`;
    next.getBoundingClientRect();
    next.style.transition = timing;
    next.style.opacity = 1;
  } else {
    old.style.transition = timing;
    old.style.opacity = 0;
  }
  if (old) setTimeout(() => { if (shown !== old.id) old.style.display = 'none'; }, 1000 * seconds + 20);
  shown = name;
  cover(next && !next.offsetTop && next.offsetHeight >= 0.95 * document.body.offsetHeight, seconds);
  enter(name);
}

// The page cannot be seen or used under a state as large as it is.
function cover(isWhole, seconds) {
  clearTimeout(covering);
  if (!isWhole) document.body.classList.remove('is-covered');
  else covering = setTimeout(() => document.body.classList.add('is-covered'), 1000 * seconds + 20);
}

// Find the elements of a state's acts, once it can be seen, and start its clock.
function enter(name) {
  timers.forEach(clearTimeout);
  timers = [];
  for (const act of acts.filter((one) => one.page === own && one.state === name)) {
    if (act.on === 'wait') timers.push(setTimeout(() => show(act.to, act.seconds, act.easing), 1000 * act.wait));
    else if (act.on === 'hover' && !act.element) prepareHover(act);
    else if (act.on === 'stays' && !act.element) prepareHeader(act);
    else if (act.on === 'reveal' && !act.element) prepareReveal(act);
    else if (act.on === 'click' && !act.element) {
      const found = find(rootOf(name), act);
      act.element = found && (found.closest('a, button, label') || found);
      if (act.element) act.element.style.cursor = 'pointer';
    }
  }
}

// A hover is for an element that fills the recorded box, else for a ground laid there and all that stands on it.
function prepareHover(act) {
  const root = rootOf(act.state);
  act.element = find(root, act);
  if (act.patch) return prepareHoverPatch(act);
  const inside = act.element && overlap(boxOf(act.element), act.box) > 0.6 ? [] : contentsOf(root, act.box);
  if (inside.length || !act.element) act.element = layGround(root, act.box, inside);
  act.element.classList.add(act.name);
  inside.forEach((element) => element.classList.add(`${act.name}-in`));
  const group = [act.element, ...inside];
  const mark = (isOver) => group.forEach((element) => element.classList.toggle('is-over', isOver));
  group.forEach((element) => {
    element.addEventListener('pointerenter', () => mark(true));
    element.addEventListener('pointerleave', () => mark(false));
  });
}

const overlap = (box, [left, top, width, tall]) => {
  const across = Math.min(box.left + box.width, left + width) - Math.max(box.left, left);
  const down = Math.min(box.top + box.height, top + tall) - Math.max(box.top, top);
  const common = Math.max(across, 0) * Math.max(down, 0);
  return common / (box.width * box.height + width * tall - common);
};

function contentsOf(root, [left, top, width, tall]) {
  const found = [];
  for (const element of root.querySelectorAll('*')) {
    const box = boxOf(element);
    const isInside = box.left >= left - 4 && box.top >= top - 4 && box.left + box.width <= left + width + 4
      && box.top + box.height <= top + tall + 4 && box.width * box.height > 0;
    if (isInside && !element.matches('template, script, link, .state, .state *')
      && !found.some((other) => other.contains(element))) found.push(element);
  }
  return found;
}

function layGround(root, [left, top, width, tall], inside) {
  const ground = document.createElement('div');
  ground.style.cssText = `position:absolute;left:${left}px;top:${top}px;width:${width}px;height:${tall}px`;
  root.append(ground);
  inside.forEach((element) => {
    if (getComputedStyle(element).position === 'static') element.style.position = 'relative';
    element.style.zIndex = 1;
  });
  return ground;
}

function prepareHoverPatch(act) {
  if (!act.element) return;
  const patch = document.getElementById(act.patch);
  act.element.addEventListener('pointerenter', () => {
    patch.style.cssText += ';display:block;opacity:0;z-index:99';
    patch.getBoundingClientRect();
    patch.style.transition = `opacity ${act.seconds}s ${act.easing || 'ease'}`;
    patch.style.opacity = 1;
  });
  act.element.addEventListener('pointerleave', () => {
    patch.style.opacity = 0;
    setTimeout(() => { if (patch.style.opacity === '0') patch.style.display = 'none'; }, 1000 * act.seconds + 20);
  });
}

// A header that stays lies over the page, and over the state shown last, while the page is scrolled.
function prepareHeader(act) {
  act.element = document.getElementById(act.bar);
  addEventListener('scroll', () => {
    act.element.style.display = scrollY > 0 ? 'block' : 'none';
    act.element.style.zIndex = height + 1;
  });
}

function prepareReveal(act) {
  const [left, top, width, tall] = act.box;
  act.element = [...document.body.querySelectorAll('*')].filter((element) => {
    const box = boxOf(element);
    return box.left >= left - 12 && box.top >= top - 12 && box.left + box.width <= left + width + 12
      && box.top + box.height <= top + tall + 12 && !element.parentElement.closest(`.${act.name}`)
      && !element.matches('template, script, link') && element.classList.add(act.name) === undefined;
  });
  const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => {
    one.target.classList.add('is-revealed');
    watch.unobserve(one.target);
  }), { threshold: 0.2 });
  act.element.forEach((element) => watch.observe(element));
}

// Of several acts that a click fits, the nearest one counts: the element of another one may be large.
document.addEventListener('click', (event) => {
  const isOnRow = (one) => one.row && one.row[0] <= event.pageX && event.pageX < one.row[1]
    && Math.abs(event.pageY - one.y) <= 2 * reach;
  const isOnElement = (one) => one.element && (event.composedPath().includes(one.element)
    || isAt(boxOf(one.element), event.pageX, event.pageY, reach));
  const away = (one) => Math.abs(event.pageY - one.y) + (isOnRow(one) ? 0 : Math.abs(event.pageX - one.x));
  const [act] = acts.filter((one) => one.page === own && one.on === 'click' && one.state === shown
    && (isOnElement(one) || isOnRow(one))).sort((one, other) => away(one) - away(other));
  const opened = acts.find((one) => one.to === shown && one.back === 0);
  if (!act && shown && opened) show(opened.state, opened.seconds, opened.easing);
  if (!act) return;
  event.preventDefault();
  if (act.href) location.href = act.href;
  else show(act.to, act.seconds, act.easing);
  if (act.back) timers.push(setTimeout(() => show(act.state, act.seconds, act.easing), 1000 * act.back));
});
enter('');
