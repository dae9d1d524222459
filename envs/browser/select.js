// Makes native drop-down lists work with a mouse in a headless browser.
//
// There the list of a <select> is painted, but clicks on its rows go nowhere: it is a window of its
// own, outside of the page. A customizable select draws its list inside the page. So for as long as a
// list is open, and only then, the select is one of those, kept at its size and near its native look.
(() => {
  if (!CSS.supports("appearance", "base-select")) return;
  const sheets = new WeakMap(); // document or shadow root -> our style sheet in it
  const isList = (node) =>
    node instanceof HTMLSelectElement && !node.multiple && node.size <= 1 && !node.disabled;

  const rule = (select, states) => {
    const box = select.getBoundingClientRect();
    const style = getComputedStyle(select);
    const target = `select:is(${states})`;
    const icon = style.appearance === "none" ? `${target}::picker-icon { display: none !important; }` : "";
    const frame =
      style.appearance === "none"
        ? ""
        : `padding: 0 0 0 4px !important; border: 1px solid #767676 !important; border-radius: 0 !important;
           background: #fff !important; font: ${style.font} !important; line-height: normal !important;`;
    return `
      ${target} {
        appearance: base-select !important; box-sizing: border-box !important; ${frame}
        width: ${select.offsetWidth || box.width}px !important; height: ${select.offsetHeight || box.height}px !important;
        min-width: 0 !important; min-height: 0 !important;
      }
      ${icon}
      ${target}::picker(select) { appearance: base-select !important; transition: none !important; }
      ${target} option { min-block-size: 0 !important; padding-block: 2px !important; }
      ${target} option:is(:hover, :focus) { background-color: #1967d2 !important; color: #fff !important; }
    `;
  };

  const prepare = (select, states) => {
    if (select.matches(":open")) return;
    const root = select.getRootNode();
    let sheet = sheets.get(root);
    if (!sheet) sheets.set(root, (sheet = new CSSStyleSheet()));
    sheet.replaceSync("");
    sheet.replaceSync(rule(select, states));
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
    getComputedStyle(select).appearance; // the list opens in the look that is in force now
  };

  const opens = (event) =>
    event.key === " " || event.key === "Enter" || event.key === "F4" ||
    (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp"));

  const onMouseDown = (event) => {
    const select = event.composedPath()[0];
    if (event.button === 0 && isList(select)) prepare(select, ":active, :open");
  };
  const onKeyDown = (event) => {
    const select = event.composedPath()[0];
    if (isList(select) && opens(event)) prepare(select, ":focus, :open");
  };
  const onKeyUp = (event) => {
    const select = event.composedPath()[0];
    if (isList(select) && !select.matches(":open")) sheets.get(select.getRootNode())?.replaceSync("");
  };
  const listen = (root) => {
    root.addEventListener("mousedown", onMouseDown, true);
    root.addEventListener("keydown", onKeyDown, true);
    root.addEventListener("keyup", onKeyUp, true);
  };
  listen(window);

  const attachShadow = Element.prototype.attachShadow; // from outside, events of a closed root hide the select
  Element.prototype.attachShadow = function (init) {
    const root = attachShadow.call(this, init);
    if (root.mode === "closed") listen(root);
    return root;
  };
})();
