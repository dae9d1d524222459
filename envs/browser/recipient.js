// Who gets a text that is put into the focused element: the origins of its document and of where its form is sent.
//
// {} asks for these. {text, origins} inserts the text if they are still the same, in one go: a script of the page that
// moves the focus meanwhile moves no part of the text.
(ask, element) => {
  const read = (proto, name, node) => Object.getOwnPropertyDescriptor(proto, name).get.call(node);
  const field = [HTMLInputElement, HTMLTextAreaElement].find((kind) => element instanceof kind);
  const form = field ? read(field.prototype, "form", element) : null;
  const sent = form ? [read(HTMLFormElement.prototype, "action", form)] : [];
  for (const control of form ? read(HTMLFormElement.prototype, "elements", form) : []) {
    if (Element.prototype.hasAttribute.call(control, "formaction")) sent.push(control.formAction);
  }
  const elsewhere = sent.filter((address) => /^https?:/.test(address) && URL.canParse(address)).map((address) => new URL(address).origin);
  const origins = [...new Set([self.origin, ...elsewhere])];
  if (!ask.origins) return { origins };
  if (JSON.stringify(origins) !== JSON.stringify(ask.origins)) return {};
  (globalThis.k25Secret ??= new WeakSet()).add(element); // see editing.js
  const isTaken = Document.prototype.execCommand.call(document, "insertText", false, ask.text);
  return isTaken ? { inside: false, is_taken: true } : {};
}
