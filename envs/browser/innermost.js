// Runs a function (ask, element), for the element of this document, or of its open shadow roots, that is at a
// point of it or has the focus. Like inspect.js, which see, in an isolated world; `inside` says: ask again in there.
function (ask, wants_element) {
  const get = (proto, name) => Object.getOwnPropertyDescriptor(proto, name).get;
  const closed = this instanceof ShadowRoot ? this : null;
  const [x, y] = ask.point ?? [0, 0];
  const elementIn = (root) => {
    const proto = (root instanceof Document ? Document : ShadowRoot).prototype;
    return ask.point ? proto.elementFromPoint.call(root, x, y) : get(proto, "activeElement").call(root);
  };
  let element = elementIn(closed ?? document) ?? closed?.host;
  for (let depth = 0; element && depth < 50; depth++) {
    const root = get(Element.prototype, "shadowRoot").call(element);
    const inner = root ? elementIn(root) : null;
    if (!inner || inner === element) break;
    element = inner;
  }
  if (wants_element) return element;
  if (!element) return {};
  const tag = get(Element.prototype, "localName").call(element);
  if (["iframe", "frame", "object", "embed", "fencedframe"].includes(tag)) {
    const box = Element.prototype.getBoundingClientRect.call(element);
    return { inside: true, is_frame: true, x: x - box.left - element.clientLeft, y: y - box.top - element.clientTop };
  }
  const canHost = element !== closed?.host && !get(Element.prototype, "shadowRoot").call(element) && (tag.includes("-") ||
    ["article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "main", "nav", "p", "section", "span"].includes(tag));
  return { inside: canHost, is_frame: false, x, y, ...(__BODY__)(ask, element) };
}
