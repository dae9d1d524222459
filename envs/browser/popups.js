// What a browser shows over a page for an element: its tooltip ({point}), and the list of a text field, or the
// type of the open picker ({list: true}); {choose: value} takes a row of that list.
(ask, element) => {
  const MAX_TITLE = 1024, MAX_SCANNED = 5000, MAX_ROWS = 200, MAX_TEXT = 300;
  const get = (proto, name) => Object.getOwnPropertyDescriptor(proto, name).get;
  const parentNode = get(Node.prototype, "parentNode"), slotOf = get(Element.prototype, "assignedSlot");
  const parent = (node) => {
    const up = slotOf.call(node) ?? parentNode.call(node);
    return up instanceof ShadowRoot ? up.host : up instanceof Element ? up : null;
  };
  const titleOf = (node) => {
    for (let depth = 0; node && depth < 500; node = parent(node), depth++) {
      if (Element.prototype.hasAttribute.call(node, "title")) return Element.prototype.getAttribute.call(node, "title");
      const inner = node instanceof SVGElement && node !== document.documentElement
        ? [...node.children].find((child) => child instanceof SVGTitleElement) : null;
      if (inner) return inner.textContent;
    }
    return "";
  };
  if (ask.point) return { tooltip: titleOf(element).trim().slice(0, MAX_TITLE) };

  // the browser paints this one, in a window of its own that gets the keys but no clicks
  if (element instanceof HTMLInputElement && element.matches(":open")) return { picker: element.type };
  const hasList = element instanceof HTMLInputElement && element.list && !element.readOnly && !element.matches(":disabled")
    && ["text", "search", "url", "tel", "email", "number"].includes(element.type);
  if (!hasList) return {};
  const isMany = element.type === "email" && element.multiple;
  if (ask.choose !== undefined) {
    const before = isMany && element.value.includes(",") ? element.value.replace(/[^,]*$/, "") : "";
    const value = before + ask.choose;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(element, value);
    element.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
    // typing before makes the browser send it again when the field is left
    const onChange = (event) => {
      if (event.isTrusted && event.target === element && element.value === value) event.stopImmediatePropagation();
    };
    addEventListener("change", onChange, true);
    addEventListener("focusout", () => removeEventListener("change", onChange, true), { once: true });
    return { is_chosen: true };
  }
  const typed = isMany ? element.value.split(",").at(-1).trim() : element.value;
  const words = [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(typed.slice(0, 200).toLowerCase())];
  const rows = [];
  for (let i = 0; i < Math.min(element.list.options.length, MAX_SCANNED) && rows.length < MAX_ROWS; i++) {
    const option = element.list.options[i], { value } = option, label = option.label === value ? "" : option.label;
    if (option.disabled || !value || value.length > MAX_TEXT) continue;
    const texts = [value.toLowerCase(), label.toLowerCase()];
    if (words.every(({ segment }) => texts.some((text) => text.includes(segment)))) rows.push([value, label.slice(0, MAX_TEXT)]);
  }
  const box = element.getBoundingClientRect();
  return { rows, box: [box.left, box.top, box.width, box.height] };
}
