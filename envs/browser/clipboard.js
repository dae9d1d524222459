// The clipboard of this session, in place of that of the browser, which is that of all sessions in it or of the host.
//
// `window[NAME]` asks the env and is taken away from the page: ("write", {type: text}) and ("read"). Images are base64.
(() => {
  const ask = window["NAME"];
  delete window["NAME"];
  const TYPES = ["text/plain", "text/html", "image/png"];
  const { Clipboard, ClipboardItem, DataTransfer, DOMException, Document, navigator, document } = window;
  const setData = DataTransfer.prototype.setData;
  const { isActive, listen } = window[Symbol.for("k25")]; // see page.js
  const policy = document.featurePolicy, allows = policy?.allowsFeature.bind(policy);
  let copied = null; // gives what the last copy event put on the clipboard; not sent yet

  const flush = async () => {
    const found = copied?.() ?? {};
    copied = null;
    if (Object.keys(found).length) await ask("write", found);
  };
  Object.defineProperty(window, Symbol.for("k25-clipboard"), { value: flush });

  const selected = () => {
    let field = document.activeElement;
    while (field?.shadowRoot?.activeElement) field = field.shadowRoot.activeElement;
    const isField = field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement;
    if (isField) {
      if (field.type === "password" || field.selectionStart === null) return {};
      const text = field.value.slice(field.selectionStart, field.selectionEnd);
      return text ? { "text/plain": text } : {};
    }
    const selection = getSelection();
    if (selection.isCollapsed) return {};
    const part = document.createElement("div");
    for (let i = 0; i < selection.rangeCount; i++) part.append(selection.getRangeAt(i).cloneContents());
    return { "text/plain": selection.toString(), "text/html": part.innerHTML };
  };
  const onCopy = (event) => {
    if (!event.isTrusted || !isActive()) return;
    const own = {}, page = selected(); // a cut removes the selection
    Object.defineProperty(event.clipboardData, "setData", {
      value(type, text) {
        setData.call(this, type, text);
        const kind = { text: "text/plain" }[`${type}`.toLowerCase()] ?? `${type}`.toLowerCase();
        if (TYPES.includes(kind)) own[kind] = `${text}`;
      },
    });
    copied = () => (event.defaultPrevented ? own : page);
    setTimeout(flush);
  };
  listen("copy", onCopy);
  listen("cut", onCopy);
  if (!Clipboard) return; // not a secure context

  const check = (verb) => {
    const problem = allows?.(`clipboard-${verb}`) === false
      ? `The Clipboard API has been blocked because of a permissions policy applied to the current document.`
      : isActive() ? null : "Document is not focused.";
    if (problem) throw new DOMException(`Failed to execute '${verb}' on 'Clipboard': ${problem}`, "NotAllowedError");
  };
  const encode = async (blob) => {
    if (blob.type !== "image/png") return blob.text();
    const bytes = new Uint8Array(await blob.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(text);
  };
  const decode = (type, text) =>
    new Blob([type === "image/png" ? Uint8Array.from(atob(text), (char) => char.charCodeAt(0)) : text], { type });
  const replace = (proto, methods) => {
    for (const [name, value] of Object.entries(methods)) Object.defineProperty(proto, name, { value, writable: true, configurable: true });
  };
  replace(Clipboard.prototype, {
    async writeText(text) {
      check("write");
      await ask("write", { "text/plain": `${text}` });
    },
    async write(items) {
      check("write");
      const found = {};
      for (const item of items) {
        for (const type of TYPES.filter((type) => item.types.includes(type))) found[type] = await encode(await item.getType(type));
      }
      await ask("write", found);
    },
    async readText() {
      check("read");
      return (await ask("read"))["text/plain"] ?? "";
    },
    async read() {
      check("read");
      const found = Object.entries(await ask("read"));
      return found.length ? [new ClipboardItem(Object.fromEntries(found.map(([type, text]) => [type, decode(type, text)])))] : [];
    },
  });
  const { query } = Permissions.prototype;
  replace(Permissions.prototype, {
    async query(wanted) {
      const isOurs = ["clipboard-read", "clipboard-write"].includes(wanted?.name);
      const status = await query.call(this, wanted);
      return isOurs ? Object.defineProperty(status, "state", { value: "granted" }) : status;
    },
  });
})();
