// What is typed into the focused element: {mark: true, is_secret} remembers what it holds, {typed: text} compares
// it with that afterwards; {paste: {type: text}} sends it a paste event.
(ask, element) => {
  const EDITORS = { ".cm-content": ".cm-line", ".CodeMirror": ".CodeMirror-line", ".monaco-editor": ".view-line", ".ace_editor": ".ace_line" };
  const MAX_SHOWN = 300, MAX_LINES = 8, MAX_HELD = 1_000_000;
  const closest = (selector) => Element.prototype.closest.call(element, selector);
  const editor = closest(Object.keys(EDITORS).join());
  const isText = element instanceof HTMLTextAreaElement || (element instanceof HTMLInputElement &&
    !["button", "submit", "reset", "image", "checkbox", "radio", "range", "file", "color"].includes(element.type));

  if (ask.paste) {
    const data = new DataTransfer();
    for (const [type, text] of Object.entries(ask.paste)) {
      if (type !== "image/png") data.setData(type, text);
      else data.items.add(new File([Uint8Array.from(atob(text), (char) => char.charCodeAt(0))], "image.png", { type }));
    }
    const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true, composed: true });
    return { is_handled: !element.dispatchEvent(event) };
  }
  const host = () => {
    let found = element;
    while (found.parentElement?.isContentEditable) found = found.parentElement;
    return found;
  };
  const secret = (globalThis.k25Secret ??= new WeakSet()); // what a secret was typed into
  const isPrivate = () => secret.has(element) || element.type === "password" || getComputedStyle(element).webkitTextSecurity !== "none"
    || /password|one-time-code|cc-/.test(element.autocomplete ?? "");
  const lines = () => {
    const kind = Object.keys(EDITORS).find((selector) => closest(selector));
    const found = [...closest(kind).querySelectorAll(EDITORS[kind])].slice(0, 1000);
    const top = new Map(found.map((line) => [line, line.getBoundingClientRect().top]));
    return found.sort((a, b) => top.get(a) - top.get(b)).map((line) => line.textContent);
  };
  const plain = (text) => text.replace(/\r\n?/g, "\n").replace(/\u00a0/g, " ").replace(/[\u200b\ufeff]/g, "");
  // blocks double their line ends, and blanks at the end of a line are not drawn
  const asDrawn = (text) => plain(text).split("\n").map((line) => line.trimEnd()).filter(Boolean).join("\n").trim();
  const squeezed = (text) => text.replace(/[ \t]+/g, " ");
  // true if `now` is `before` with the text inserted, or put in place of a part; blanks around it do not count
  const isInserted = (typed, before, now) => {
    if (before === undefined) return now.includes(typed);
    const most = Math.min(before.length, now.length);
    let head = 0, tail = 0;
    while (head < most && before[head] === now[head]) head++;
    while (tail < most && before.at(-1 - tail) === now.at(-1 - tail)) tail++;
    const isBlank = (at) => /\s/.test(now[at] ?? "");
    for (let at = now.indexOf(typed); at >= 0; at = now.indexOf(typed, at + 1)) {
      let start = at, end = at + typed.length;
      while (start > 0 && isBlank(start - 1)) start--;
      if (start > head) return false;
      while (end < now.length && isBlank(end)) end++;
      if (now.length - end <= tail && start + now.length - end <= before.length) return true;
    }
    return false;
  };

  if (ask.mark) {
    globalThis.k25Marked = null;
    if (ask.is_secret) secret.add(element);
    if (editor) globalThis.k25Marked = { element, focused: element };
    else if (isText && element.value.length < MAX_HELD) {
      const { value, selectionStart: start, selectionEnd: end } = element;
      globalThis.k25Marked = { element, focused: element, value, start, end };
    } else if (element.isContentEditable) {
      const held = host().innerText;
      globalThis.k25Marked = { element: host(), focused: element, value: held.length < MAX_HELD ? asDrawn(held) : undefined };
    }
    return { is_editor: Boolean(editor) };
  }
  const marked = globalThis.k25Marked;
  globalThis.k25Marked = null;
  const typed = plain(ask.typed);
  if (!marked || !marked.element.isConnected) return {};
  if (typed.includes("\t") && marked.focused !== element) return { is_left: true };
  const form = typed.includes("\t") ? squeezed : (text) => text; // an editor may turn tabs into blanks
  const isNextCell = (now) => typed.includes("\t") && now === typed.split("\t").at(-1).trim(); // of a grid with one field
  if (editor && marked.element === element) {
    const asShown = (line) => form(line).trimEnd();
    const wanted = typed.trimEnd().split("\n"), end = wanted.slice(-MAX_LINES).map(asShown).join("\n");
    const shown = lines().map(plain);
    const isThere = `\n${shown.map(asShown).join("\n")}`.includes(wanted.length > MAX_LINES ? `\n${end}` : end);
    return isThere || !shown.length ? {} : { shown: isPrivate() ? null : shown.join("\n").trimEnd().slice(-MAX_SHOWN), is_cut: false };
  }
  if (isText && marked.element === element) {
    const isPlaced = marked.start !== null && marked.start !== undefined;
    const wanted = isPlaced ? marked.value.slice(0, marked.start) + typed + marked.value.slice(marked.end) : typed;
    const now = plain(element.value);
    const isSent = element instanceof HTMLInputElement ? typed.includes("\n") : !now && typed.endsWith("\n"); // by Enter
    const isSame = isPlaced ? form(now) === form(plain(wanted)) : isInserted(typed.trim(), plain(marked.value), now);
    if (isSent || isSame || isNextCell(now)) return {};
    return { shown: isPrivate() ? null : now.slice(0, MAX_SHOWN), is_cut: now.length > MAX_SHOWN };
  }
  if (element.isContentEditable && marked.element === host()) {
    const now = asDrawn(marked.element.innerText.slice(0, MAX_HELD)), before = marked.value;
    const isSame = isInserted(form(asDrawn(typed)), before === undefined ? before : form(before), form(now));
    if (isSame || isNextCell(now) || (!now && typed.endsWith("\n"))) return {};
    const text = plain(marked.element.innerText).trim();
    return { shown: isPrivate() ? null : text.slice(0, MAX_SHOWN), is_cut: text.length > MAX_SHOWN };
  }
  return {};
}
