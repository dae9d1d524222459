// Kinds are switched on and off, a citation or a mark of the timeline leads to its event and plays its clip.
const quiet = matchMedia('(prefers-reduced-motion: reduce)').matches;
const events = [...document.querySelectorAll('.event')];

// A clip shows its poster and one large button until it is played; without scripts it has the browser's own controls.
for (const video of document.querySelectorAll('.stage video')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'play';
  button.setAttribute('aria-label', `Play: ${video.getAttribute('aria-label')}`);
  button.addEventListener('click', () => video.play().catch(() => {}));
  video.addEventListener('play', () => { video.controls = true; button.remove(); });
  video.controls = false;
  video.after(button);
}

for (const button of document.querySelectorAll('.kind')) {
  button.addEventListener('click', () => {
    const isOn = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(isOn));
    for (const shown of document.querySelectorAll('.event, .row a')) {
      if (shown.dataset.kind === button.dataset.kind) shown.classList.toggle('off', !isOn);
    }
  });
}

function show(card, plays) {
  for (const other of document.querySelectorAll('.event.now')) other.classList.remove('now');
  card.classList.remove('off');
  card.classList.add('now');
  card.scrollIntoView({ behavior: quiet ? 'auto' : 'smooth', block: 'center' });
  card.focus({ preventScroll: true });
  const video = card.querySelector('video');
  if (video && plays) video.play().catch(() => {});
}

document.addEventListener('click', (click) => {
  const link = click.target.closest('a[href^="#event-"]');
  const card = link && document.getElementById(link.getAttribute('href').slice(1));
  if (!card) return;
  click.preventDefault();
  history.replaceState(null, '', link.getAttribute('href'));
  show(card, true);
});

document.addEventListener('play', (started) => {
  for (const video of document.querySelectorAll('video')) if (video !== started.target) video.pause();
}, true);

document.addEventListener('keydown', (pressed) => {
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || /^(VIDEO|INPUT)$/.test(pressed.target.tagName)) return;
  const step = { j: 1, k: -1 }[pressed.key];
  if (!step) return;
  const open = events.filter((card) => !card.classList.contains('off'));
  const at = open.findIndex((card) => card.classList.contains('now'));
  const next = open[Math.min(Math.max(at + step, 0), open.length - 1)];
  if (next) show(next, false);
});
