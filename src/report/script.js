"use strict";
// Hover: marks say what they are.
(function () {
  const box = document.getElementById("hover");
  function show(event) {
    const mark = event.target.closest && event.target.closest("[data-t]");
    if (!mark) { box.className = ""; return; }
    box.textContent = mark.getAttribute("data-t");
    box.className = "on";
    const width = box.offsetWidth, height = box.offsetHeight;
    const left = Math.min(Math.max(4, event.clientX + 14), window.innerWidth - width - 6);
    const below = event.clientY + 18 + height < window.innerHeight;
    box.style.left = left + "px";
    box.style.top = (below ? event.clientY + 18 : event.clientY - height - 12) + "px";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", function () { box.className = ""; }, true);
})();
// Sorting: a click on a heading, once more for the other way round.
document.querySelectorAll("table.sortable").forEach(function (table) {
  table.querySelectorAll("thead button").forEach(function (button, column) {
    button.addEventListener("click", function () {
      const head = button.closest("th");
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("thead th").forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = function (row) {
        const cell = row.cells[column];
        return cell.hasAttribute("data-v") ? parseFloat(cell.getAttribute("data-v")) : null;
      };
      const body = table.tBodies[0];
      const rows = Array.from(body.rows);
      const numbers = rows.some(function (row) { return key(row) !== null; });
      rows.sort(function (a, b) {
        const x = key(a), y = key(b);
        if (numbers) {
          // What is not known comes last, either way.
          if (x === null || y === null) { return (x === null) - (y === null); }
          return down ? y - x : x - y;
        }
        const order = a.cells[column].textContent.localeCompare(b.cells[column].textContent, "en", { numeric: true });
        return down ? -order : order;
      });
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
});
// Whoever follows a link to a part that is closed wants to see it.
(function () {
  function open() {
    const part = document.getElementById(location.hash.slice(1));
    const details = part && part.querySelector(":scope > details");
    if (details) { details.open = true; }
  }
  window.addEventListener("hashchange", open);
  open();
})();
// Paper shows everything.
window.addEventListener("beforeprint", function () {
  document.querySelectorAll("details").forEach(function (part) { part.open = true; });
});
