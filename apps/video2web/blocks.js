// Paint every element that can hold text in a colour of its own, as Design2Code does, so that the pixels of a
// screenshot tell whose text they are: Design2Code's elements, and those that hold text outside of them, such as pre.
// Called twice: the second time with other colours, so that what does not change with them is no text. Returns text, colour and words of each text node; words have a box per line that they are on.
(offset) => {
  const tags = 'p h1 h2 h3 h4 h5 h6 div span a b li table td th button footer header figcaption'.split(' ');
  const colors = [];
  for (let r = 10; r <= 250; r += 16) for (let g = 10; g <= 250; g += 16) for (let b = 10; b <= 250; b += 16)
    colors.push([r, g, b]);
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim());
  const isTagged = (element) => tags.includes(element.localName) || (hasText(element) && !element.closest(tags.join()));
  const ids = new Map();
  for (const element of document.querySelectorAll('*')) {
    if (!element.style) continue;
    element.style.setProperty('background-color', 'rgba(255, 255, 255, 0)', 'important');
    if (!isTagged(element) || !colors.length) {
      if (!element.matches('input, textarea, select, option')) element.style.setProperty('color', 'inherit', 'important');
      continue;
    }
    const color = colors.pop();
    ids.set(element, color);
    element.style.setProperty('color', `rgb(${color.map((level) => (level + offset) % 256).join()})`, 'important');
    element.style.setProperty('opacity', '1', 'important');
  }
  const range = document.createRange();
  const wordShape = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+/g; // as WORD in losses.py
  const wordsOf = (node) => [...node.nodeValue.slice(0, 5000).matchAll(wordShape)].flatMap((word) => {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const boxes = [...range.getClientRects()].map((r) => [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY]);
    return boxes.length ? [[word[0], boxes]] : [];
  });
  const found = [];
  const skipped = 'script style noscript template'.split(' ');
  const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && found.length < 20000) {
    const text = walker.currentNode.nodeValue.trim();
    let owner = walker.currentNode.parentElement;
    if (!text || !owner || owner.closest(skipped.join(','))) continue;
    while (owner && !ids.has(owner)) owner = owner.parentElement;
    if (owner) found.push([text.slice(0, 5000), ids.get(owner), wordsOf(walker.currentNode)]);
  }
  return found;
};
