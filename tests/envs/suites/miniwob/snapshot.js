// What a page is: document, values, scroll, focus and listeners; what only counts up (ids of widgets) is left out.
() => {
  const events = (target) => {
    const known = window.jQuery?._data?.(target, "events") ?? {};
    return Object.keys(known).sort().map((type) => `${type}:${known[type].length}`).join(",");
  };
  const isOwn = (element) => !element.closest("#reward-display, #click-canvas, #sync-task-cover");
  const elements = [...document.querySelectorAll("*")].filter(isOwn).map((element) => [
    element.tagName,
    [...element.attributes].map((attribute) => `${attribute.name}=${attribute.value}`).sort().join("|"),
    [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("~"),
    element.value ?? "", element.checked ?? "", element.selectedIndex ?? "",
    element.scrollTop, element.scrollLeft,
    events(element),
    Object.keys(element).filter((key) => key.startsWith("__on")).sort().join(","),
    element.tagName === "CANVAS" ? element.toDataURL() : "",
  ].join(" ; ").replace(/ui-id-\d+|dp\d{8,}/g, "ID"));
  return {
    elements,
    events: [events(document), events(window)],
    focused: document.activeElement.tagName + document.activeElement.id,
    scroll: [scrollX, scrollY],
    episode: [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_EPISODE_ID],
  };
}
