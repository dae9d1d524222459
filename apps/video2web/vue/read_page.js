// A page's text as a tree, parsed as browsers parse it; no script of it runs, nothing of it is loaded.
(html) => {
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  const childrenOf = (node) => [...(node.localName === 'template' ? node.content : node).childNodes].map(tell).filter((each) => each !== null);
  const attributesOf = (node) => [...node.attributes].map(({ name, value }) => [name, value]);
  function tell(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    return [node.localName, attributesOf(node), childrenOf(node)];
  }
  return { hasDoctype: parsed.doctype !== null, root: tell(parsed.documentElement) };
}
