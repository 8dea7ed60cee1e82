// The slider over the past: a move shows its numbers at once, and the text and what it means follow.

import { askFor, setText, showChecked } from "./editor.js";

const rowsOf = () => [...document.querySelectorAll("#thresholds tbody tr")];

function show(rows, place) {
  const row = rows[place];
  const slide = document.getElementById("slide");
  for (const each of rows) each.removeAttribute("aria-current");
  row.setAttribute("aria-current", "true");
  slide.value = String(place);
  slide.setAttribute("aria-valuetext", row.dataset.caption);
  document.getElementById("slid").textContent = row.dataset.caption;
  const places = row.dataset.x.split(" ");
  document.querySelectorAll("#curve .at").forEach((each, drawing) => each.setAttribute("transform", `translate(${places[drawing]} 0)`));
}

async function move(place) {
  const rows = rowsOf();
  if (place < 0 || place >= rows.length) return;
  show(rows, place);
  const page = await askFor(document.getElementById("editor").dataset.fill, { threshold: rows[place].dataset.threshold });
  if (!page) return;
  setText(page.getElementById("text").value);
  showChecked(page);
}

document.addEventListener("input", (event) => {
  if (event.target.id === "slide") move(Number(event.target.value));
});
document.addEventListener("click", (event) => {
  const by = { down: -1, up: 1 }[event.target.closest("button")?.id];
  if (!by) return;
  event.preventDefault();
  move(Number(document.getElementById("slide").value) + by);
});
