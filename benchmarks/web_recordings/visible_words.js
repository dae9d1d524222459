// Return [word, column, row] of each word that can be seen in the window: opaque, and covered by nothing opaque.
() => {
  const found = [];
  const stackAt = (root, x, y) => root.elementsFromPoint(x, y).filter((one) => one.getRootNode() === root)
    .flatMap((one) => (one.shadowRoot ? [...stackAt(one.shadowRoot, x, y), one] : [one]));
  const hides = (element) => {
    const style = getComputedStyle(element);
    const [, , , alpha = '1'] = style.backgroundColor.match(/[\d.]+/g);
    return (Number(alpha) > 0.9 || style.backgroundImage !== 'none' || element.matches('img, canvas, video')) && isOpaque(element);
  };
  const isOnTop = (element, x, y) => {
    for (const one of stackAt(document, x, y)) {
      if (has(element, one)) return true;
      if (hides(one)) return false;
    }
    return false;
  };
  const parentOf = (node) => node.parentElement || (node.getRootNode().host ?? null);
  const isOpaque = (element) => {
    let alpha = 1;
    for (let one = element; one; one = parentOf(one)) alpha *= Number(getComputedStyle(one).opacity);
    return alpha > 0.6 && getComputedStyle(element).visibility === 'visible';
  };
  const isClipped = (element, x, y) => {
    for (let one = element; one && one !== document.body; one = parentOf(one)) {
      const box = one.getBoundingClientRect();
      if (getComputedStyle(one).overflowY !== 'visible' && (y < box.top || y > box.bottom || x < box.left || x > box.right)) return true;
    }
    return false;
  };
  const has = (outer, inner) => {
    for (let one = inner; one; one = parentOf(one)) if (one === outer) return true;
    return false;
  };
  const add = (text, box, element) => {
    const word = text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (!word || !box.width || x < 0 || y < 0 || x >= innerWidth || y >= innerHeight || isClipped(element, x, y)) return;
    if (isOpaque(element) && isOnTop(element, x, y)) found.push([word, x, y]);
  };
  const walk = (root) => {
    for (const node of root.childNodes) {
      if (node.nodeType === Node.TEXT_NODE && node.parentElement?.closest('script, style, template') === null) {
        for (const match of node.data.matchAll(/\S+/g)) {
          const range = document.createRange();
          range.setStart(node, match.index);
          range.setEnd(node, match.index + match[0].length);
          add(match[0], range.getBoundingClientRect(), node.parentElement);
        }
      } else if (node.nodeType === Node.ELEMENT_NODE) {
        if (node.shadowRoot) walk(node.shadowRoot);
        if (node.matches('input, textarea') && node.value) add(node.value, node.getBoundingClientRect(), node);
        walk(node);
      }
    }
  };
  walk(document.body);
  return found;
}
