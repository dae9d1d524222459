"use strict";
(() => {
  const body = document.querySelector(".tasks tbody");
  const rows = [...body.rows].map((row) => ({
    row,
    name: row.cells[0].querySelector(".name").textContent,
    text: row.cells[0].textContent.toLowerCase(),
    family: row.cells[1].textContent,
    ...Object.fromEntries(Object.entries(row.dataset).map(([key, value]) => [key, Number(value)])),
    is: row.dataset.is.split(" "),
  }));
  const words = document.getElementById("words");
  const family = document.getElementById("family");
  const choices = ["outcome", "ending", "error"].map((id) => document.getElementById(id)).filter(Boolean);
  const shown = document.getElementById("shown");
  const nothing = document.getElementById("nothing");

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const one of rows) {
      const fits = wanted.every((word) => one.text.includes(word))
        && (!family || !family.value || one.family === family.value)
        && choices.every((choice) => !choice.value || one.is.includes(choice.value));
      one.row.hidden = !fits;
      count += fits;
    }
    shown.textContent = count === rows.length ? String(count) : `${count} of ${rows.length}`;
    nothing.hidden = count > 0;
  }

  const heads = [...document.querySelectorAll(".tasks thead th")];
  function sort(head, key) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const collator = new Intl.Collator("en", { numeric: true });
    const compare = typeof rows[0]?.[key] === "number" ? (a, b) => a[key] - b[key] : (a, b) => collator.compare(a[key], b[key]);
    rows.sort((a, b) => (down ? -compare(a, b) : compare(a, b)));
    body.append(...rows.map((one) => one.row));
  }

  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  for (const control of [words, family, ...choices]) if (control) control.addEventListener("input", filter);
  for (const head of heads) {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sort(head, button.dataset.key));
  }
  filter();
})();
