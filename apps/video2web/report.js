// The line between reference and ours follows the range below it, and the pointer over the image.
for (const slider of document.querySelectorAll('.slider')) {
  const range = slider.nextElementSibling;
  const show = (share) => slider.style.setProperty('--at', `${share}%`);
  range.addEventListener('input', () => show(range.value));
  slider.addEventListener('pointermove', (event) => {
    const box = slider.getBoundingClientRect();
    range.value = (100 * (event.clientX - box.left)) / box.width;
    show(range.value);
  });
}
