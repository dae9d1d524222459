// What a click at a point or a key activates in this document: a list of targets (see envs/target.py).
//
// Runs in an isolated world: the page shares the elements but not the natives. What a page can still
// overlay are the named properties of forms and of the document, so these are read through prototypes.
// `this` is a closed shadow root, or the window. {point: [x, y]} or {key, typed, ctrl, alt} is asked.
// A frame or a host of a closed root on the way gives {inside: true, x, y}, to be asked in there.
function (ask, wants_element) {
  const MAX_NODES = 400, MAX_TEXT = 1500, MAX_NEAR = 300;
  const TYPES = { submit: "button", button: "button", reset: "button", image: "button", checkbox: "checkbox",
    radio: "radio button", range: "slider", file: "file input", color: "colour input" };
  const TAGS = { button: "button", summary: "button", textarea: "text area", select: "select", option: "option",
    img: "image", label: "label", video: "video", canvas: "canvas", h1: "heading", h2: "heading", h3: "heading" };
  const REACTS = "a[href], area[href], button, input, select, textarea, option, summary, label, video, " +
    "[role=button], [role=link], [role=menuitem], [role=menuitemcheckbox], [role=menuitemradio], [role=tab], " +
    "[role=option], [role=checkbox], [role=radio], [role=switch], [role=treeitem], [role=combobox], [onclick], " +
    "[onmousedown], [onpointerdown], [onmouseup], [onpointerup], [contenteditable=''], [contenteditable=true]";
  const CONTROLS = "a[href], button, input, select, textarea, option, summary, [role=button], [role=link], " +
    "[role=menuitem], [role=tab], [role=option], [role=checkbox], [role=radio], [role=switch], [onclick]";
  const DIALOGS = "dialog, [role=dialog], [role=alertdialog], [aria-modal=true]";
  const HEADINGS = "h1, h2, h3, h4, h5, h6, legend, [role=heading], caption";

  const getter = (proto, name) => {
    const read = Object.getOwnPropertyDescriptor(proto, name).get;
    return (node) => read.call(node);
  };
  const parentNode = getter(Node.prototype, "parentNode");
  const childNodes = getter(Node.prototype, "childNodes");
  const textContent = getter(Node.prototype, "textContent");
  const innerText = getter(HTMLElement.prototype, "innerText");
  const localName = getter(Element.prototype, "localName");
  const shadowRoot = getter(Element.prototype, "shadowRoot");
  const before = getter(Element.prototype, "previousElementSibling");
  const slotOf = getter(Element.prototype, "assignedSlot");
  const bodyOf = getter(Document.prototype, "body");
  const topOf = getter(Document.prototype, "documentElement");
  const attr = (node, name) => Element.prototype.getAttribute.call(node, name);
  const matches = (node, selector) => Element.prototype.matches.call(node, selector);
  const rootOf = (node) => Node.prototype.getRootNode.call(node);
  const within = (node, selector) => node instanceof Document ? Document.prototype.querySelectorAll.call(node, selector)
    : node instanceof Element ? Element.prototype.querySelectorAll.call(node, selector)
    : DocumentFragment.prototype.querySelectorAll.call(node, selector);
  const byId = (node, id) => {
    const root = rootOf(node);
    const find = root instanceof Document ? Document.prototype.getElementById : DocumentFragment.prototype.getElementById;
    return root instanceof Document || root instanceof DocumentFragment ? find.call(root, id) : null;
  };
  const parent = (node) => {
    const slot = node instanceof Element ? slotOf(node) : null;
    if (slot) return slot;
    const up = parentNode(node);
    return up instanceof ShadowRoot ? up.host : up instanceof Element ? up : null;
  };
  const line = (text, most = MAX_TEXT) => (text ?? "").slice(0, most * 4).replace(/\s+/g, " ").trim().slice(0, most);
  const isShown = (node) => Element.prototype.checkVisibility.call(node, { visibilityProperty: true });
  const holds = (node, other) => Node.prototype.contains.call(node, other);

  const closed = this instanceof ShadowRoot ? this : null;

  // ---- what there is to read on an element and in it
  const generated = (node, style) => {
    const content = style.content;
    if (!content || content === "none" || content === "normal") return "";
    const parts = content.match(/"(?:[^"\\]|\\.)*"|attr\([^)]*\)/g) ?? [];
    return parts.map((part) => part[0] === '"' ? part.slice(1, -1).replace(/\\(.)/g, "$1")
      : attr(node, part.slice(5, -1).trim().split(/[\s,]/)[0]) ?? "").join("");
  };
  const file = (address) => address?.startsWith("data:") ? null : address?.split(/[?#]/)[0].split("/").at(-1);
  const files = (style) => [...`${style.backgroundImage} ${style.maskImage} ${style.content}`.matchAll(/url\("([^"]{1,300})/g)]
    .map((found) => file(found[1]));
  const read = (top, skip, most = MAX_TEXT) => {
    const found = { text: "", names: [], hints: [] };
    let left = MAX_NODES;
    const visit = (node) => {
      if (left-- <= 0 || found.text.length > most) return;
      if (node.nodeType === 3) { found.text += node.data.slice(0, most); return; }
      if (node instanceof Element) {
        const tag = localName(node);
        if (["script", "style", "noscript", "template"].includes(tag)) return;
        if (skip && node !== top && matches(node, skip)) return;
        const style = getComputedStyle(node);
        if (style.display === "none" && tag !== "title" && tag !== "desc") return;
        const isBlock = !style.display.startsWith("inline") && style.display !== "contents" || tag === "br";
        if (isBlock) found.text += " ";
        for (const name of ["aria-label", "alt", "title"]) found.names.push(attr(node, name));
        if (tag === "title" || tag === "desc") found.names.push(textContent(node));
        found.hints.push(attr(node, "class"), attr(node, "data-icon"), file(attr(node, "src")), tag === "use" ? attr(node, "href") ?? attr(node, "xlink:href") : null, ...files(style));
        const first = getComputedStyle(node, "::before"), last = getComputedStyle(node, "::after");
        found.hints.push(...files(first), ...files(last));
        const start = found.text.length;
        found.text += generated(node, first);
        if (style.display === "list-item") {
          found.text += generated(node, getComputedStyle(node, "::marker")) + (style.listStyleType.match(/^"(.*)"$/)?.[1] ?? "");
        }
        const inner = shadowRoot(node);
        const assigned = tag === "slot" ? node.assignedNodes({ flatten: true }) : [];
        for (const child of assigned.length ? assigned : inner ? childNodes(inner) : childNodes(node)) visit(child);
        found.text += generated(node, last);
        if (style.unicodeBidi.includes("override") && style.direction === "rtl") {
          found.names.push([...found.text.slice(start)].reverse().join(""));
        }
        if (isBlock) found.text += " ";
      } else for (const child of childNodes(node)) visit(child);
    };
    visit(top);
    return found;
  };
  const shown = (node) => node instanceof HTMLElement ? innerText(node) : textContent(node);
  const type = (node) => node instanceof HTMLInputElement ? node.type : "";
  const isButtonInput = (node) => TYPES[type(node)] === "button";
  const isTextInput = (node) => node instanceof HTMLInputElement && !TYPES[type(node)];
  const isField = (node) => (node instanceof HTMLInputElement && !isButtonInput(node))
    || node instanceof HTMLSelectElement || node instanceof HTMLTextAreaElement || node.isContentEditable === true;
  const isEditable = (node) => isTextInput(node) || node instanceof HTMLTextAreaElement || node.isContentEditable === true;
  const formOf = (node) => {
    for (const kind of [HTMLButtonElement, HTMLInputElement, HTMLSelectElement, HTMLTextAreaElement, HTMLFieldSetElement]) {
      if (node instanceof kind) return Object.getOwnPropertyDescriptor(kind.prototype, "form").get.call(node);
    }
    for (let up = node; up; up = parent(up)) if (up instanceof HTMLFormElement) return up;
    return null;
  };
  const role = (node) => {
    const given = attr(node, "role"), tag = localName(node);
    if (tag === "a" || tag === "area") return given || "link";
    if (node instanceof HTMLInputElement) return TYPES[node.type] ?? `input[type=${node.type}]`;
    return given || TAGS[tag] || tag;
  };
  const withoutFields = (label) => {
    const copy = label.cloneNode(true);
    for (const field of within(copy, "input, select, textarea")) field.remove();
    return textContent(copy);
  };
  const names = (node, all, labels) => {
    const ids = (attr(node, "aria-labelledby") ?? "").split(/\s+/).filter(Boolean).slice(0, 10);
    const labelled = ids.map((id) => byId(node, id)).filter(Boolean);
    const isInput = isField(node) && node.isContentEditable !== true;
    const ordered = [labelled.map(textContent).join(" "), attr(node, "aria-label"), labels.map(withoutFields).join(" "),
      isButtonInput(node) ? node.value || node.alt || (node.type === "submit" ? "Submit" : "") : "",
      isInput ? "" : shown(node), attr(node, "alt"), ...(isInput ? [] : all.names),
      attr(node, "placeholder"), attr(node, "title"), isInput ? attr(node, "name") : ""];
    const seen = [...labelled, ...labels].flatMap((label) => { const it = read(label); return [it.text, ...it.names]; });
    const more = [all.text, ...all.names, attr(node, "value"), attr(node, "aria-description"), ...seen];
    const first = ordered.map((text) => line(text)).find(Boolean);
    return [...new Set([first, ...ordered.slice(0, -1), ...(isInput ? seen : more)].map((text) => line(text)).filter(Boolean))].slice(0, 12);
  };
  const hints = (node, all) => {
    const form = formOf(node);
    const isSubmit = node instanceof HTMLButtonElement && node.type === "submit" || ["submit", "image"].includes(type(node));
    const found = [...all.hints, attr(node, "onclick"), attr(node, "id"), attr(node, "data-action"), attr(node, "data-testid"),
      attr(node, "formaction"), form && (isSubmit || node === form) ? attr(form, "action") : null,
      attr(node, "href")?.trim().toLowerCase().startsWith("javascript:") ? attr(node, "href") : null];
    return [...new Set(found.map((text) => line(text, MAX_NEAR)).filter(Boolean))].slice(0, 40);
  };

  // ---- what stands around it
  const near = (box) => line(read(box, CONTROLS, MAX_NEAR * 2).text, MAX_NEAR);
  const titleOf = (dialog) => {
    const ids = (attr(dialog, "aria-labelledby") ?? "").split(/\s+/).filter(Boolean).slice(0, 10);
    return line([...ids.map((id) => byId(dialog, id)).filter(Boolean).map(textContent), attr(dialog, "aria-label")].join(" "), MAX_NEAR);
  };
  const context = (node) => {
    const found = [];
    let own = null, heading = null, isLarge = false;
    for (let up = parent(node), depth = 0; up && depth < 40; up = parent(up), depth++) {
      if (matches(up, DIALOGS)) { found.push(titleOf(up), near(up)); heading ??= up; break; }
      if (up === topOf(document) || up === bodyOf(document)) break;
      if (!own && !isLarge && depth < 6) {
        const text = near(up);
        isLarge = text.length >= MAX_NEAR;
        if (text && !isLarge) own = text;
      }
    }
    if (own) found.push(own);
    for (let up = node, depth = 0; up && !heading && depth < 40; up = parent(up), depth++) {
      let side = before(up);
      for (let number = 0; side && !heading && number < 20; number++, side = before(side)) {
        const heads = matches(side, HEADINGS) ? [side] : [...within(side, HEADINGS)];
        heading = heads.filter(isShown).at(-1);
      }
    }
    if (heading instanceof Element && matches(heading, HEADINGS)) found.push(line(shown(heading), MAX_NEAR));
    return [...new Set(found.filter(Boolean))];
  };
  const openDialog = () => {
    const open = [...within(document, DIALOGS)].slice(0, 50).filter((node) => isShown(node) && (localName(node) !== "dialog" || node.open));
    return open.at(-1) ?? null;
  };

  const target = (node, more = []) => {
    const labels = [...(node instanceof HTMLElement && "labels" in node && !(node instanceof HTMLFormElement) ? node.labels ?? [] : [])].slice(0, 5);
    const isInput = isField(node) && node.isContentEditable !== true;
    const all = isInput ? { text: "", names: [attr(node, "aria-label"), attr(node, "title")], hints: [] }
      : node instanceof HTMLFormElement ? { text: "", names: [attr(node, "aria-label"), attr(node, "title")], hints: [] } : read(node);
    const known = node instanceof HTMLFormElement ? all.names.map((text) => line(text)).filter(Boolean) : names(node, all, labels);
    const isLink = ["a", "area"].includes(localName(node));
    return {
      role: role(node), names: [...new Set([...known, ...more.map((text) => line(text)).filter(Boolean)])], hints: hints(node, all),
      context: isField(node) && type(node) !== "file" ? [] : context(node),
      is_image: !isField(node) && !line(all.text) && !(isButtonInput(node) && type(node) !== "image" && (node.value || type(node) === "submit")),
      url: isLink && typeof node.href === "string" ? node.href : null, is_field: isField(node),
    };
  };
  const unknown = () => {
    const dialog = openDialog();
    return { role: "", names: [], hints: [], context: dialog ? [titleOf(dialog), near(dialog)].filter(Boolean) : [], url: null,
      is_field: false, is_element: false };
  };

  // ---- a click
  const atPoint = (element, x, y) => {
    let found = null;
    for (let node = element; node && !found; node = parent(node)) {
      if (matches(node, REACTS) || localName(node).includes("-")) found = node;
    }
    if (!found && getComputedStyle(element).cursor === "pointer") {
      found = element;
      for (let up = parent(element); up && getComputedStyle(up).cursor === "pointer"; up = parent(up)) found = up;
    }
    found ??= element;
    if (found === topOf(document) || found === bodyOf(document)) return [];
    const more = [];
    for (let node = element, depth = 0; node && node !== found && depth < 20; node = parent(node), depth++) {
      if (rootOf(node) !== rootOf(found)) more.push(read(node).text); // of a closed root, which nobody else can read
    }
    if (closed && rootOf(found) !== closed) more.push(read(closed).text);
    if (localName(found) === "label" && found.control) { more.push(shown(found)); found = found.control; }
    more.push(...below(element, x, y));
    const isLarge = !matches(found, REACTS) && shown(found).length > 80;
    if (isLarge) return [{ ...target(found), names: [line(own(found)), line(shown(found), 80)].filter(Boolean), context: [] }];
    return [target(found, more)];
  };
  const own = (node) => [...childNodes(node)].filter((child) => child.nodeType === 3).map((child) => child.data).join(" ");
  const isClear = (node) => {
    for (let up = node; up; up = parent(up)) if (Number(getComputedStyle(up).opacity) < 0.2) return true;
    return !line(read(node).text, 10) && getComputedStyle(node).backgroundImage === "none"
      && /rgba\(.*, 0\)|transparent/.test(getComputedStyle(node).backgroundColor) && !within(node, "img, svg, canvas, video").length;
  };
  // what a person sees through a transparent thing that gets the click
  const below = (element, x, y) => {
    if (!isClear(element)) return [];
    const root = rootOf(element);
    const stack = root instanceof Document ? Document.prototype.elementsFromPoint.call(root, x, y) : root.elementsFromPoint?.(x, y) ?? [];
    for (const node of stack.slice(0, 20)) {
      if (node === element || holds(element, node) || holds(node, element)) continue;
      const text = matches(node, CONTROLS) ? target(node).names.join(" ") : own(node) || attr(node, "alt") || "";
      if (line(text)) return [text];
    }
    return [];
  };

  // ---- a key
  const isSubmit = (node) => (node instanceof HTMLButtonElement && node.type === "submit") || ["submit", "image"].includes(type(node));
  const submitted = (field) => {
    const form = formOf(field);
    if (!form) return [];
    const button = [...within(rootOf(form), "button, input")].find((node) => isSubmit(node) && formOf(node) === form);
    if (!button) return [target(form)];
    return matches(button, ":disabled") ? [] : [target(button)];
  };
  const active = (node) => {
    const id = attr(node, "aria-activedescendant");
    const found = id ? byId(node, id) : null;
    return found ? [target(found)] : [];
  };
  const accessKeys = (key) => {
    const found = [];
    const look = (root, depth) => {
      for (const node of within(root, "[accesskey]")) {
        if ([...attr(node, "accesskey").toLowerCase().split(/\s+/)].includes(key.toLowerCase())) {
          found.push(target(localName(node) === "label" && node.control ? node.control : node, [shown(node)]));
        }
      }
      if (depth < 5) for (const node of [...within(root, "*")].slice(0, 5000)) if (shadowRoot(node)) look(shadowRoot(node), depth + 1);
    };
    look(document, 0);
    return found;
  };
  const chosen = (select, key, typed) => {
    const options = [...within(select, "option")].filter((option) => !option.disabled).slice(0, 5000);
    const at = options.findIndex((option) => option.selected);
    const steps = { down: at + 1, right: at + 1, up: at - 1, left: at - 1, home: 0, pageup: 0, end: options.length - 1, pagedown: options.length - 1 };
    if (key in steps) return [options[Math.min(Math.max(steps[key], 0), options.length - 1)]].filter(Boolean);
    const starts = (text) => options.filter((option) => line(option.label || textContent(option)).toLowerCase().startsWith(text));
    const whole = starts(typed.trim().toLowerCase());
    return (whole.length ? whole : starts(typed.trim().toLowerCase().slice(0, 1))).slice(0, 20);
  };
  const neighbours = (radio, key) => {
    const all = [...within(rootOf(radio), "input")].filter((node) =>
      type(node) === "radio" && node.name === radio.name && formOf(node) === formOf(radio) && !node.disabled);
    const step = ["down", "right"].includes(key) ? 1 : ["up", "left"].includes(key) ? -1 : 0;
    return step ? [all.at((all.indexOf(radio) + step) % all.length)].filter(Boolean) : [];
  };
  const onKey = (focused) => {
    const found = activated(focused);
    if (closed && focused === closed.host) for (const entry of found) entry.names.push(line(read(closed).text));
    return found;
  };
  const activated = (focused) => {
    const { key, typed, ctrl, alt } = ask;
    if (alt && key.length === 1) return accessKeys(key);
    const isNothing = focused === bodyOf(document) || focused === topOf(document);
    if (key === "enter") {
      if (isNothing) return [unknown()];
      if (focused instanceof HTMLTextAreaElement || (focused.isContentEditable && !matches(focused, CONTROLS))) {
        const sent = ctrl ? submitted(focused) : [];
        return [...active(focused), ...(sent.length ? sent : [target(focused)])];
      }
      if (isField(focused) && !["file", "color"].includes(type(focused))) {
        const sent = submitted(focused);
        const picked = focused instanceof HTMLSelectElement ? [...focused.selectedOptions].slice(0, 3).map((option) => target(option)) : [];
        return [...active(focused), ...picked, ...(sent.length ? sent : [target(focused)])];
      }
      return [target(focused), ...active(focused)];
    }
    if (key === "space") {
      if (isEditable(focused) || focused instanceof HTMLSelectElement) return [];
      if (isNothing) return openDialog() ? [unknown()] : [];
      if (localName(focused) === "a" && !attr(focused, "role") && !attr(focused, "onclick") && !attr(focused, "onkeydown")) return [];
      return [target(focused), ...active(focused)];
    }
    if (["up", "down", "left", "right", "home", "end", "pageup", "pagedown"].includes(key)) {
      if (focused instanceof HTMLSelectElement) return chosen(focused, key, "").map((option) => target(option));
      return type(focused) === "radio" ? neighbours(focused, key).map((node) => target(node)) : [];
    }
    if (typed && focused instanceof HTMLSelectElement) return chosen(focused, "", typed).map((option) => target(option));
    if (isEditable(focused) && typed) return [target(focused)];
    if (isEditable(focused)) return ctrl && !["delete", "backspace"].includes(key) ? [unknown()] : [];
    return key === "delete" || key === "backspace" ? [isNothing ? unknown() : target(focused)] : [unknown()];
  };

  // ---- the way down to the element
  const root = closed ?? document;
  let [x, y] = ask.point ?? [0, 0];
  const elementIn = (from) => ask.point
    ? (from instanceof Document ? Document.prototype : ShadowRoot.prototype).elementFromPoint?.call(from, x, y)
    : getter(from instanceof Document ? Document.prototype : ShadowRoot.prototype, "activeElement")(from);
  let element = elementIn(root) ?? closed?.host;
  for (let depth = 0; element && depth < 50; depth++) {
    const inner = shadowRoot(element) ? elementIn(shadowRoot(element)) : null;
    if (!inner || inner === element) break;
    element = inner;
  }
  if (wants_element) return element;
  const view = [visualViewport?.pageLeft ?? 0, visualViewport?.pageTop ?? 0]; // what is left and above of what is seen
  if (!element) return { view, targets: ask.point ? [] : onKey(bodyOf(document) ?? topOf(document)) };
  if (["iframe", "frame", "object", "embed", "fencedframe"].includes(localName(element))) {
    const box = element.getBoundingClientRect();
    return { view, inside: true, is_frame: true, x: x - box.left - element.clientLeft, y: y - box.top - element.clientTop,
      targets: ask.point ? [target(element)] : [unknown()] };
  }
  const canHost = localName(element).includes("-") || ["article", "aside", "blockquote", "body", "div", "footer", "h1", "h2",
    "h3", "h4", "h5", "h6", "header", "main", "nav", "p", "section", "span"].includes(localName(element));
  const inside = canHost && !shadowRoot(element) && element !== closed?.host;
  return { view, inside, is_frame: false, x, y, targets: ask.point ? atPoint(element, x, y) : onKey(element) };
}
