"use strict";
// Sorts tables by their heads, and offers the record as a file. The page reads without it.
(() => {
  const key = (row, place) => {
    const cell = row.cells[place];
    const text = cell.dataset.key ?? cell.textContent;
    return text.trim() === "" || text === "–" ? null : isNaN(text) ? text : Number(text);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  const sort = (table, head) => {
    const down = head.getAttribute("aria-sort") === "ascending" ||
      (!head.hasAttribute("aria-sort") && head.classList.contains("number"));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, head.cellIndex), row]);
    // What was not measured stays at the end, whichever way the others are sorted.
    rows.sort(([a], [b]) => a === null || b === null
      ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table.sortable"))
    for (const head of table.tHead.rows[0].cells)
      head.querySelector("button").addEventListener("click", () => sort(table, head));

  // A graph is wider than its box, and begins in the middle.
  for (const box of document.querySelectorAll(".graph"))
    box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;

  const button = document.getElementById("download");
  button.hidden = false;
  button.addEventListener("click", () => {
    const text = document.getElementById("record").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
