// The slider over the past: a move shows its numbers at once, and the text and what it means follow.

import { askFor, setText, showChecked } from "./editor.js";

const slide = document.getElementById("slide");
const rows = [...document.querySelectorAll("#thresholds tbody tr")];

function show(place) {
  const row = rows[place];
  for (const each of rows) each.removeAttribute("aria-current");
  row.setAttribute("aria-current", "true");
  slide.value = String(place);
  slide.setAttribute("aria-valuetext", row.dataset.said);
  document.getElementById("slid").textContent = row.dataset.said;
  document.getElementById("curve-at")?.setAttribute("transform", `translate(${row.dataset.x} 0)`);
}

async function move(place) {
  if (place < 0 || place >= rows.length) return;
  show(place);
  const page = await askFor(document.getElementById("editor").dataset.fill, { threshold: rows[place].dataset.threshold });
  if (!page) return;
  setText(page.getElementById("text").value);
  showChecked(page);
}

function step(event, by) {
  event.preventDefault();
  move(Number(slide.value) + by);
}

if (slide && rows.length) {
  slide.setAttribute("aria-valuetext", rows[Number(slide.value)].dataset.said);
  slide.addEventListener("input", () => move(Number(slide.value)));
  document.getElementById("down")?.addEventListener("click", (event) => step(event, -1));
  document.getElementById("up")?.addEventListener("click", (event) => step(event, 1));
}
