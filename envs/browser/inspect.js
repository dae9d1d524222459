// What a click at a point or a key activates in this document: a list of targets (see envs/target.py).
//
// Runs in an isolated world: the page shares the elements but not the natives. What a page can still
// overlay are the named properties of forms and of the document, so these are read through prototypes.
// `this` is a closed shadow root, or the window. {point: [x, y], is_drop} or {key, typed, ctrl, alt} is asked.
// A frame or a host of a closed root on the way gives {inside: true, x, y}, to be asked in there.
function (ask, wants_element) {
  const MAX_NODES = 400, MAX_TEXT = 1500, MAX_NEAR = 300;
  const MAX_CHAT_PX = 100; // a higher field is a page of text, in which Enter makes a new line
  const EDITS = /^(?!f\d)/, EDITS_WITH_CTRL = /^([acvxzy]|delete|backspace)$/; // keys that only edit text
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
  const HANDLER = new RegExp("^(on(click|dblclick|submit|change|input|(mouse|pointer)(down|up)|key(down|up|press)|drop)|ng-.*|v-on:.*|@.*" +
    "|x-on:.*|wire:.*|\\(.*\\)|hx-.*|data-(.*method|.*action|.*target|.*url|.*href|command|event)|form(action|method)|action|command" +
    "|name|value|popovertarget)$");
  const CLICKED = /^((ng-|v-on:|@|x-on:|wire:|\(|on)(dbl)?click|hx-(delete|get|patch|post|put)$|data-(turbo-)?method$)/;
  const CONFIRM = ["data-confirm", "data-turbo-confirm", "hx-confirm", "wire:confirm"];
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
  const sheetsOf = getter(Document.prototype, "styleSheets");
  const attributesOf = getter(Element.prototype, "attributes");
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
    const parts = content.match(/"(?:[^"\\]|\\.)*"|(?:attr|counters?)\([^)]*\)/g) ?? [];
    return parts.map((part) => part[0] === '"' ? part.slice(1, -1).replace(/\\(.)/g, "$1")
      : part[0] === "c" ? counterText(part.slice(0, -1).split(/[,\s]+/).at(-1))
      : attr(node, part.slice(5, -1).trim().split(/[\s,]/)[0]) ?? "").join("");
  };
  // the texts of a counter style that the page defines, for counters and for marks of lists
  let counterRules = null;
  const counterText = (name) => {
    counterRules ??= [...sheetsOf(document)].slice(0, 50).flatMap((sheet) => {
      try { return [...sheet.cssRules].filter((rule) => rule instanceof CSSCounterStyleRule); }
      catch { return []; } // of another origin
    });
    return counterRules.filter((rule) => rule.name === name)
      .map((rule) => `${rule.prefix} ${rule.symbols} ${rule.additiveSymbols} ${rule.suffix}`.replaceAll('"', "")).join(" ");
  };
  const file = (address) => address?.startsWith("data:") ? null : address?.split(/[?#]/)[0].split("/").at(-1);
  const addresses = (style) => [...`${style.backgroundImage} ${style.maskImage} ${style.content}`
    .matchAll(/url\("((?:[^"\\]|\\.){1,4000})/g)].map((found) => found[1].replace(/\\(.)/g, "$1"));
  // the text in a drawing that is written into its address
  const drawn = (address) => {
    const [head, data] = /^data:image\/svg\+xml([^,]{0,60}),(.*)$/s.exec((address ?? "").slice(0, 8000))?.slice(1) ?? [];
    if (!data) return null;
    try { return (head.includes("base64") ? atob(data) : decodeURIComponent(data)).slice(0, 4000).split("<").map((part) => part.split(">").at(-1)).join(" "); }
    catch { return null; } // not an address after all
  };
  // children as a flexible box or a grid shows them
  const inOrder = (children, style) => {
    if (!/flex|grid/.test(style.display)) return children;
    const order = (child) => child instanceof Element ? Number(getComputedStyle(child).order) || 0 : 0;
    const sorted = [...children].sort((one, other) => order(one) - order(other));
    return style.display.includes("flex") && style.flexDirection.endsWith("-reverse") ? sorted.reverse() : sorted;
  };
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
        const used = tag === "use" ? attr(node, "href") ?? attr(node, "xlink:href") : null;
        for (const name of ["aria-label", "alt", "title"]) found.names.push(attr(node, name));
        if (tag === "title" || tag === "desc") found.names.push(textContent(node));
        found.hints.push(attr(node, "class"), attr(node, "data-icon"), file(attr(node, "src")), ...(tag === "use" ? [used] : []));
        const first = getComputedStyle(node, "::before"), last = getComputedStyle(node, "::after");
        const shownAt = [attr(node, "src"), ...[style, first, last].flatMap(addresses)];
        found.hints.push(...shownAt.map(file));
        found.names.push(...shownAt.map(drawn));
        const start = found.text.length;
        found.text += generated(node, first);
        if (style.display === "list-item") {
          found.text += generated(node, getComputedStyle(node, "::marker")) + (style.listStyleType.match(/^"(.*)"$/)?.[1] ?? counterText(style.listStyleType));
        }
        const inner = shadowRoot(node);
        const assigned = tag === "slot" ? node.assignedNodes({ flatten: true }) : [];
        const symbol = used?.startsWith("#") ? byId(node, used.slice(1)) : null;
        const children = [...assigned.length ? assigned : childNodes(inner ?? symbol ?? node)];
        const ordered = inOrder(children, style);
        for (const child of ordered) visit(child);
        found.text += generated(node, last);
        if (children.some((child, at) => child !== ordered[at])) found.names.push(found.text.slice(start).replace(/\s+/g, ""));
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
  const isSubmit = (node) => (node instanceof HTMLButtonElement && node.type === "submit") || ["submit", "image"].includes(type(node));
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
      isButtonInput(node) ? node.value || node.alt || ({ submit: "Submit", reset: "Reset" }[node.type] ?? "") : "",
      isInput ? "" : shown(node), attr(node, "alt"), ...(isInput ? [] : all.names),
      attr(node, "placeholder"), attr(node, "title"), isInput ? attr(node, "name") : ""];
    const seen = [...labelled, ...labels].flatMap((label) => { const it = read(label); return [it.text, ...it.names]; });
    const more = [all.text, ...all.names, attr(node, "aria-description"), ...seen,
      ...CONFIRM.map((name) => attr(node, name) ?? (formOf(node) && isSubmit(node) ? attr(formOf(node), name) : null))];
    const first = ordered.map((text) => line(text)).find(Boolean);
    return [...new Set([first, ...ordered.slice(0, -1), ...(isInput ? seen : more)].map((text) => line(text)).filter(Boolean))].slice(0, 12);
  };
  const hints = (node, all) => {
    const found = [...all.hints, attr(node, "id"), attr(node, "data-testid")];
    return [...new Set(found.map((text) => line(text, MAX_NEAR)).filter(Boolean))].slice(0, 40);
  };
  // what it does in the page's own code; for what submits a form also what that does
  const handlers = (node) => {
    const written = (one) => [...attributesOf(one)]
      .filter((it) => HANDLER.test(it.name) && !(isField(one) && ["name", "value"].includes(it.name))).map((it) => `${it.name} ${it.value}`);
    const form = formOf(node);
    const sent = form && (isSubmit(node) || node === form);
    const methods = sent ? [...within(form, "input[type=hidden]")].filter((it) => /method|action/.test(attr(it, "name") ?? ""))
      .map((it) => `${attr(it, "name")} ${attr(it, "value")}`) : [];
    const found = [...written(node), ...(sent ? written(form) : []), ...methods];
    return [...new Set(found.map((text) => line(text, MAX_NEAR)))].slice(0, 20);
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
    const form = isSubmit(node) ? formOf(node) : null;
    const picked = form ? [...within(form, "select")].slice(0, 5).flatMap((select) => [...select.selectedOptions].slice(0, 3)) : [];
    found.push(...picked.map((option) => line(option.label || textContent(option), MAX_NEAR)));
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
  // the name of the row or list entry that an element belongs to: its first cell or heading
  const item = (node) => {
    for (let up = parent(node), depth = 0; up && depth < 20; up = parent(up), depth++) {
      if (!matches(up, "tr, li, article, [role=row], [role=listitem]")) continue;
      const cells = [...within(up, `th, td, strong, b, ${HEADINGS}, [role=cell], [role=gridcell], [role=rowheader]`)].slice(0, 20);
      return cells.filter((cell) => isShown(cell) && !holds(cell, node)).map((cell) => line(shown(cell))).find(Boolean) ?? "";
    }
    return "";
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
      role: role(node), names: [...new Set([...known, ...more.map((text) => line(text)).filter(Boolean)])], hints: hints(node, all), handlers: handlers(node),
      context: isField(node) && type(node) !== "file" ? [] : context(node), item: isField(node) ? "" : item(node),
      is_image: !isField(node) && !line(all.text) && !(isButtonInput(node) && type(node) !== "image" && (node.value || ["submit", "reset"].includes(type(node)))),
      url: isLink && typeof node.href === "string" ? node.href : null, is_field: isField(node),
    };
  };
  const unknown = () => {
    const dialog = openDialog();
    return { role: "", names: [], hints: [], handlers: [], context: dialog ? [titleOf(dialog), near(dialog)].filter(Boolean) : [], url: null,
      is_field: false, is_element: false };
  };

  // ---- a click
  const atPoint = (element, x, y) => {
    let found = null;
    for (let node = element; node && !found; node = parent(node)) {
      const isHandled = [...attributesOf(node)].some((it) => CLICKED.test(it.name));
      if (isHandled || matches(node, REACTS) || localName(node).includes("-")) found = node;
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
    more.push(...below(element, x, y), ...(ask.is_drop ? under(found, x, y) : []));
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
  const stackAt = (element, x, y) => {
    const root = rootOf(element);
    const stack = root instanceof Document ? Document.prototype.elementsFromPoint.call(root, x, y) : root.elementsFromPoint?.(x, y) ?? [];
    return stack.slice(0, 20);
  };
  // what lies under a thing that is dropped
  const under = (dragged, x, y) => stackAt(dragged, x, y).filter((node) => !holds(dragged, node) && !holds(node, dragged))
    .map((node) => [own(node), attr(node, "aria-label"), attr(node, "title"), attr(node, "alt"), shown(node).length <= 80 ? shown(node) : ""].join(" "));
  // what a person sees through a transparent thing that gets the click
  const below = (element, x, y) => {
    if (!isClear(element)) return [];
    for (const node of stackAt(element, x, y)) {
      if (node === element || holds(element, node) || holds(node, element)) continue;
      const text = matches(node, CONTROLS) ? target(node).names.join(" ") : own(node) || attr(node, "alt") || "";
      if (line(text)) return [text];
    }
    return [];
  };

  // ---- a key
  // the buttons beside a field in which Enter may send what it holds
  const beside = (field) => {
    for (let up = parent(field), depth = 0; up && depth < 5; up = parent(up), depth++) {
      const found = [...within(up, "button, [role=button], input[type=submit], input[type=button]")].filter((node) => isShown(node));
      if (found.length) return found.slice(0, 6).flatMap((node) => target(node).names.slice(0, 3));
    }
    return [];
  };
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
        const context = ctrl || focused.getBoundingClientRect().height < MAX_CHAT_PX ? beside(focused) : [];
        return [...active(focused), ...(sent.length ? sent : [{ ...target(focused), context }])];
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
    if (key === "esc") return [{ ...unknown(), context: [] }]; // it leaves a dialog
    if (isEditable(focused) && typed) return [target(focused)];
    if (isEditable(focused) && (ctrl ? EDITS_WITH_CTRL : EDITS).test(key)) return [];
    if (key !== "delete" && key !== "backspace") return [unknown()];
    return [isNothing ? { ...unknown(), role: "page", is_element: true } : target(focused)];
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
