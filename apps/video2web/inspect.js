// What a page is made of, for its scores: boxes that can be seen, and what is wrong with it.
() => {
  const boxes = [];
  const sides = ['Top', 'Right', 'Bottom', 'Left'];
  const isSeen = (color) => color && color !== 'transparent' && !/rgba\(.*, 0\)/.test(color);
  const behind = (element) => {
    for (let over = element.parentElement; over; over = over.parentElement) {
      const style = getComputedStyle(over);
      if (style.backgroundImage !== 'none') return '';
      if (isSeen(style.backgroundColor)) return style.backgroundColor;
    }
    return 'rgb(255, 255, 255)';
  };
  const add = (kind, rect, look, text = '') => boxes.length < 3000
    && boxes.push([kind, rect.left + scrollX, rect.top + scrollY, rect.width, rect.height, look, text.slice(0, 5000)]);
  // a border that does not go all around is a line
  const addLine = (rect, side, width, color) => add('rule', {
    left: side === 'Right' ? rect.right - width : rect.left, top: side === 'Bottom' ? rect.bottom - width : rect.top,
    width: side === 'Left' || side === 'Right' ? width : rect.width,
    height: side === 'Top' || side === 'Bottom' ? width : rect.height,
  }, color);
  for (const element of document.querySelectorAll('body *')) {
    const rect = element.getBoundingClientRect();
    if (Math.max(rect.width, rect.height) < 4 || Math.min(rect.width, rect.height) <= 0) continue;
    if (!element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(element);
    const borders = sides.map((side) => (
      parseFloat(style[`border${side}Width`]) > 0 && isSeen(style[`border${side}Color`])
        && !['none', 'hidden'].includes(style[`border${side}Style`])
        ? `${style[`border${side}Width`]} ${style[`border${side}Color`]}` : ''));
    const isFilled = style.backgroundImage !== 'none'
      || (isSeen(style.backgroundColor) && style.backgroundColor !== behind(element));
    const isThin = Math.min(rect.width, rect.height) < 5;
    const look = style.backgroundImage === 'none' ? [style.backgroundColor, ...borders].join('|') : '';
    if (['img', 'svg', 'canvas', 'video', 'picture'].includes(element.localName)) {
      if (!isThin) add('image', rect, '');
    } else if (['input', 'textarea', 'select'].includes(element.localName)) {
      if (!isThin) add('field', rect, '', element.selectedOptions?.[0]?.text ?? (element.value || element.placeholder || ''));
    } else if (isThin) {
      if (isFilled || borders.some(Boolean)) add('rule', rect, borders.find(Boolean)?.split(' ').slice(1).join(' ') || style.backgroundColor);
    } else {
      const isFramed = borders.every(Boolean);
      if (isFilled || isFramed) add('box', rect, look);
      if (!isFramed) borders.forEach((border, at) => {
        if (border) addLine(rect, sides[at], parseFloat(border), border.split(' ').slice(1).join(' '));
      });
    }
  }
  const root = document.documentElement;
  return {
    boxes,
    overflow_px: Math.max(0, root.scrollWidth - root.clientWidth),
    num_elements: document.querySelectorAll('*').length,
  };
};
