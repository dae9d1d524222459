// Boxes, in CSS pixels of this frame's viewport, in which one of the given secrets can be read.
(secrets) => {
  const boxes = [];
  const add = (box) => { if (box.width && box.height) boxes.push([box.left, box.top, box.width, box.height]); };
  const holds = (text) => text && secrets.some((secret) => text.includes(secret));

  const markText = (root) => {
    const nodes = [];
    let text = "";
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      nodes.push([text.length, walker.currentNode]);
      text += walker.currentNode.data;
    }
    const place = (offset) => { // the text node at an offset of the whole text, and the offset in it
      let low = 0, high = nodes.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (nodes[middle][0] <= offset) low = middle; else high = middle - 1;
      }
      return [nodes[low][1], offset - nodes[low][0]];
    };
    for (const secret of secrets) {
      for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
        const range = document.createRange();
        range.setStart(...place(at));
        const [last, offset] = place(at + secret.length - 1);
        range.setEnd(last, offset + 1);
        for (const box of range.getClientRects()) add(box);
      }
    }
  };

  const visit = (root) => {
    markText(root);
    for (const element of root.querySelectorAll("*")) {
      const isField = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement;
      if (isField && element.type !== "password" && (holds(element.value) || (!element.value && holds(element.placeholder))))
        add(element.getBoundingClientRect());
      if (element instanceof HTMLSelectElement && holds(element.selectedOptions[0]?.text)) add(element.getBoundingClientRect());
      if (element.shadowRoot) visit(element.shadowRoot);
    }
  };
  visit(document);
  return boxes;
}
