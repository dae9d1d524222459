// What a page is made of, for its scores: boxes that can be seen, and what is wrong with it.
() => {
  const boxes = [];
  const isSeen = (color) => color && color !== 'transparent' && !/rgba\(.*, 0\)/.test(color);
  for (const element of document.querySelectorAll('body *')) {
    if (boxes.length >= 3000) break;
    const rect = element.getBoundingClientRect();
    if (rect.width < 4 || rect.height < 4) continue;
    const style = getComputedStyle(element);
    if (style.visibility === 'hidden') continue;
    const border = ['Top', 'Right', 'Bottom', 'Left'].some(
      (side) => parseFloat(style[`border${side}Width`]) > 0 && isSeen(style[`border${side}Color`])
        && style[`border${side}Style`] !== 'none');
    const kind = ['img', 'svg', 'canvas', 'video', 'picture'].includes(element.localName) ? 'image'
      : ['input', 'textarea', 'select'].includes(element.localName) ? 'field'
      : isSeen(style.backgroundColor) || style.backgroundImage !== 'none' || border ? 'box' : '';
    if (!kind) continue;
    const text = kind === 'field' ? String(element.selectedOptions?.[0]?.text ?? (element.value || element.placeholder || '')) : '';
    boxes.push([kind, rect.left + scrollX, rect.top + scrollY, rect.width, rect.height, text.slice(0, 5000)]);
  }
  const root = document.documentElement;
  return {
    boxes,
    title: document.title.slice(0, 300),
    overflow_px: Math.max(0, root.scrollWidth - root.clientWidth),
    num_elements: document.querySelectorAll('*').length,
    images_without_alt: [...document.images].filter((image) => !image.hasAttribute('alt')).length,
  };
};
