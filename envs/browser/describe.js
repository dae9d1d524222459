// What stands at a point of this frame: role and name of the nearest thing that reacts to a click.
// A point in a frame of another origin gives {inner: [x, y]}, to be asked there.
([x, y]) => {
  const TYPES = { submit: "button", button: "button", reset: "button", image: "button", checkbox: "checkbox",
    radio: "radio button", range: "slider", file: "file input", color: "colour input" };
  const TAGS = { BUTTON: "button", SUMMARY: "button", TEXTAREA: "text area", SELECT: "select", OPTION: "option",
    IMG: "image", LABEL: "label", VIDEO: "video", CANVAS: "canvas", H1: "heading", H2: "heading", H3: "heading" };
  const REACTS = "a[href], area[href], button, input, select, textarea, option, summary, label, video, " +
    "[role=button], [role=link], [role=menuitem], [role=tab], [role=option], [role=checkbox], [role=radio], " +
    "[role=switch], [role=treeitem], [role=combobox], [onclick], [contenteditable=''], [contenteditable=true]";
  const short = (text) => {
    const line = (text ?? "").replace(/\s+/g, " ").trim();
    return line.length > 80 ? `${line.slice(0, 79)}…` : line;
  };

  let element = document.elementFromPoint(x, y);
  for (let depth = 0; element && depth < 50; depth++) {
    const inner = element.shadowRoot?.elementFromPoint(x, y);
    if (inner && inner !== element) { element = inner; continue; }
    if (element.tagName !== "IFRAME" && element.tagName !== "FRAME") break;
    const box = element.getBoundingClientRect();
    x -= box.left + element.clientLeft;
    y -= box.top + element.clientTop;
    let below = null;
    try { below = element.contentDocument; } catch { /* another origin */ }
    if (!below) return { inner: [x, y] };
    element = below.elementFromPoint(x, y);
  }
  if (!element) return null;

  const parent = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  let target = null;
  for (let node = element; node && !target; node = parent(node)) {
    if (node.matches(REACTS)) target = node;
  }
  if (!target && getComputedStyle(element).cursor === "pointer") {
    target = element;
    for (let up = parent(element); up && getComputedStyle(up).cursor === "pointer"; up = parent(up)) target = up;
  }
  target ??= element;
  if (target.tagName === "LABEL" && target.control) target = target.control;
  if (target.tagName === "HTML" || target.tagName === "BODY") return null;

  const role = () => {
    const given = target.getAttribute("role");
    if (target.tagName === "A" || target.tagName === "AREA") return given || "link";
    if (target.tagName === "INPUT") return TYPES[target.type] ?? `input[type=${target.type}]`;
    return given || TAGS[target.tagName] || target.tagName.toLowerCase();
  };
  const name = () => {
    const root = target.getRootNode();
    const ids = (target.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    const labelled = ids.map((id) => root.getElementById?.(id)?.textContent ?? "").join(" ");
    const isButton = target.tagName === "INPUT" && TYPES[target.type] === "button";
    const isField = ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);
    const labels = [...(target.labels ?? [])].map((label) => {
      const copy = label.cloneNode(true);
      for (const field of copy.querySelectorAll("input, select, textarea")) field.remove();
      return copy.textContent;
    }).join(" ");
    const candidates = [labelled, target.getAttribute("aria-label"), labels,
      isButton ? target.value || target.alt || (target.type === "submit" ? "Submit" : "") : "",
      isField ? "" : target.innerText ?? target.textContent, target.alt,
      isField ? "" : target.querySelector?.("img[alt], [aria-label]")?.getAttribute("alt"),
      isField ? "" : target.querySelector?.("[aria-label]")?.getAttribute("aria-label"),
      target.placeholder, target.title, isField ? target.name : ""];
    return candidates.map(short).find(Boolean) ?? "";
  };
  const label = name();
  const link = target.href && (target.tagName === "A" || target.tagName === "AREA") ? ` -> ${target.href}` : "";
  return `${role()}${label ? ` "${label}"` : ""}${link}`;
}
