// A case: drawn to the width that is there, dots and rows that name each other, who else is here, what changed.

const ASK_MS = 30000;
const SETTLED_MS = 200;
const root = document.getElementById("case");

// --- the width -------------------------------------------------------------------------------------------------------

function measured() {
  const place = document.getElementById("measured");
  if (!place) return 0;
  const room = Math.round(place.clientWidth - 32);
  // Narrower than that it is not readable: it scrolls, and opens at the crossing.
  return window.innerWidth < 720 ? Math.max(room, 640) : room;
}

function storeWidth(width) {
  document.cookie = `crossline-width=${width}; path=/; SameSite=Strict; max-age=31536000`;
}

function draw() {
  const width = measured();
  const place = document.getElementById("evidence");
  if (!width || !place || !root?.dataset.evidence) return;
  storeWidth(width);
  if (place.dataset.width === undefined || Number(place.dataset.width) === width) return;
  const target = `${root.dataset.evidence}?width=${width}`;
  window.htmx.ajax("GET", target, { target: "#evidence", swap: "outerHTML" });
}

function openAtCrossing() {
  for (const each of document.querySelectorAll(".draw")) {
    if (each.scrollWidth <= each.clientWidth || each.dataset.placed) continue;
    each.dataset.placed = "1";
    const hit = each.querySelector(".cross-l");
    const at = hit ? hit.getBoundingClientRect().left - each.getBoundingClientRect().left : each.scrollWidth;
    each.scrollLeft = Math.max(0, at - 0.7 * each.clientWidth);
  }
}

// --- dots and rows ---------------------------------------------------------------------------------------------------

function mark(record, on) {
  if (!record) return;
  for (const each of document.querySelectorAll("[data-record]")) {
    if (each.dataset.record === record) each.classList.toggle("marked", on);
  }
}

for (const [name, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]]) {
  document.addEventListener(name, ({ target }) => mark(target.closest?.("[data-record]")?.dataset.record, on));
}

// --- what changes ----------------------------------------------------------------------------------------------------

async function ask() {
  const place = document.getElementById("state");
  if (!place || document.hidden) return;
  const answer = await fetch(root.dataset.state, { headers: { "HX-Request": "true" } }).catch(() => null);
  if (!answer?.ok) return;
  const text = await answer.text();
  const came = new DOMParser().parseFromString(text, "text/html").getElementById("state");
  if (!came || came.isEqualNode(place)) return;
  place.replaceWith(document.importNode(came, true));
  if (came.dataset.over) over(came.dataset.over);
}

function over(why) {
  for (const each of root.querySelectorAll(".acts a.btn, .head form button")) {
    const button = document.createElement("button");
    button.className = each.className;
    button.type = "button";
    button.disabled = true;
    button.title = why;
    button.append(...each.childNodes);
    each.replaceWith(button);
  }
}

// --- copying, printing -----------------------------------------------------------------------------------------------

function startCopying() {
  for (const each of document.querySelectorAll("[data-copy]")) {
    each.hidden = !navigator.clipboard;
    each.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(each.dataset.copy).textContent);
      each.firstChild.textContent = "Copied ";
    });
  }
}

if (root) {
  storeWidth(measured());
  draw();
  openAtCrossing();
  root.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  startCopying();
  let timer;
  new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(draw, SETTLED_MS);
  }).observe(document.getElementById("measured"));
  new MutationObserver(openAtCrossing).observe(document.getElementById("measured"), { childList: true, subtree: true });
  setInterval(ask, ASK_MS);
  document.addEventListener("visibilitychange", ask);
  document.addEventListener("crossline:event", ({ detail }) => {
    if (detail.kind === "case" && detail.body?.number === root.dataset.case) ask();
  });
  const print = document.getElementById("print");
  print.hidden = false;
  print.addEventListener("click", () => window.print());
  document.querySelector("#ask input:not([type=hidden]), #ask select, #ask textarea")?.focus();
}
