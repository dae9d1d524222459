// Markdown of an answer as elements: headings, lists, code, tables, quotes, emphasis, links. Everything else stays text:
// no HTML, no images, links to http and https only.

import { make } from "./store.js";

const FENCE = /^\s*```[\w+-]*\s*$/;
const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^[\s|:-]+$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.+?)\s*#*$/;
const INLINE = new RegExp([
  "(`+)(.+?)\\1(?!`)", // code
  "(?<!!)\\[([^\\[\\]^]+)\\]\\((https?://[^\\s()<>]+(?:\\([^\\s()<>]*\\)[^\\s()<>]*)*)\\)", // link
  "\\[\\^((?:t[\\w-]+\\.)?\\d+)(?:\\.\\d+)?\\^\\]", // [^3^] leads to result 3, [^3.1^] to its image, [^t001.0^] to a sub-agent's
  "\\*\\*(?=\\S)(.+?)(?<=\\S)\\*\\*", "(?<![\\w*])\\*(?=[^\\s*])([^*]+?)(?<=\\S)\\*(?![\\w*])",
].join("|"), "g");

function inline(text, cite) {
  const pieces = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, words, address, mark, strong, soft] = found;
    if (found.index > end) pieces.push(text.slice(end, found.index));
    end = found.index + whole.length;
    if (code !== undefined) pieces.push(make("code", {}, code.trim() || code));
    else if (address !== undefined) {
      pieces.push(make("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", class: "external", title: address },
        words, make("span", { class: "quiet" }, " ↗")));
    } else if (mark !== undefined) pieces.push(cite(mark));
    else if (strong !== undefined) pieces.push(make("strong", {}, ...inline(strong, cite)));
    else pieces.push(make("em", {}, ...inline(soft, cite)));
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

function table(rows, cite) {
  const row = (tag) => (line) => make("tr", {}, ...line.trim().slice(1, -1).split("|").map((cell) => make(tag, {}, ...inline(cell.trim(), cite))));
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    make("table", {}, ...rows.slice(0, 1).map(row("th")), ...rows.slice(1).map(row("td"))));
}

// items of one list; deeper ones become lists inside
function list(lines, cite) {
  const depth = ITEM.exec(lines[0])[1].length;
  const isOrdered = /\d/.test(ITEM.exec(lines[0])[2]);
  const first = isOrdered ? Number.parseInt(ITEM.exec(lines[0])[2], 10) : null;
  const made = make(isOrdered ? "ol" : "ul", { start: first !== 1 ? first : null });
  for (let at = 0; at < lines.length;) {
    let next = at + 1;
    while (next < lines.length && ITEM.exec(lines[next])[1].length > depth) next += 1;
    const deeper = lines.slice(at + 1, next);
    made.append(make("li", {}, ...inline(ITEM.exec(lines[at])[3], cite), ...(deeper.length ? [list(deeper, cite)] : [])));
    at = next;
  }
  return made;
}

// the elements of a text; `cite` makes the element of a citation mark
export function markdown(text, cite) {
  const lines = text.split("\n"), made = [];
  const run = (at, fits) => {
    let end = at;
    while (end < lines.length && fits(lines[end])) end += 1;
    return end;
  };
  const isPlain = (line) => line.trim() && ![FENCE, ROW, ITEM, HEADING].some((kind) => kind.test(line)) && !line.startsWith("> ");
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    let end = at + 1;
    if (FENCE.test(line)) {
      end = run(at + 1, (one) => !/^\s*```\s*$/.test(one));
      const fenced = lines.slice(at + 1, end).join("\n"); // some models fence the whole answer
      made.push(...(/```(markdown|md)\s*$/.test(line) ? markdown(fenced, cite) : [make("pre", { tabindex: "0" }, fenced)]));
      end += 1;
    } else if (ROW.test(line)) {
      end = run(at, (one) => ROW.test(one));
      made.push(table(lines.slice(at, end).filter((one) => !RULE.test(one)), cite));
    } else if (ITEM.test(line)) {
      const [, indent, sign] = ITEM.exec(line); // a list ends where one of the other kind begins
      end = run(at, (one) => {
        const item = ITEM.exec(one);
        return item && (item[1].length > indent.length || /\d/.test(item[2]) === /\d/.test(sign));
      });
      made.push(list(lines.slice(at, end), cite));
    } else if (HEADING.test(line)) made.push(make("h4", {}, ...inline(HEADING.exec(line)[1], cite)));
    else if (line.startsWith("> ")) {
      end = run(at, (one) => one.startsWith("> "));
      made.push(make("blockquote", {}, ...inline(lines.slice(at, end).map((one) => one.slice(2)).join("\n"), cite)));
    } else if (line.trim()) {
      end = Math.max(run(at, isPlain), at + 1);
      made.push(make("p", {}, ...inline(lines.slice(at, end).join("\n"), cite)));
    }
    at = end;
  }
  return made;
}
