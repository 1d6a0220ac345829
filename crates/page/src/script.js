"use strict";
// Tables sort by the column whose heading is clicked: by number where both cells have one, else as text.
const key = (row, column) => {
  const cell = row.cells[column];
  return cell ? cell.dataset.sort ?? cell.textContent.trim() : "";
};
const compare = (a, b, sign) => {
  const [x, y] = [parseFloat(a), parseFloat(b)];
  // What is no number stands below.
  if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
  return sign * (isNaN(x) ? a.localeCompare(b) : x - y);
};
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => compare(key(a, column), key(b, column), sign)));
    });
  });
}
// Paper has no folds.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
