// The queue by keys: one stop in the list, selection, preview, the next rows before they are reached, what is new.
// All of it can be done without: rows are links, the bar at the foot is a form, each part has an address.
import { startNews } from "./news.js";

const PREVIEW_MS = 90;
const AHEAD_PX = 900; // how far before the end the next rows are asked for
const root = document.getElementById("queue");
const list = document.getElementById("cases");
const place = `crossline-queue ${location.pathname}?${root?.dataset.back ?? ""}`;

const rows = () => [...(list?.querySelectorAll("li.case") ?? [])];
const link = (row) => row.querySelector("a");
const box = (row) => row.querySelector("input.ck");
const picked = () => rows().filter((each) => box(each).checked);
let at = null; // the row in focus
let every = false;
let timer;

function focusRow(row, { quiet = false } = {}) {
  if (!row) return;
  at?.classList.remove("on");
  if (at && at !== row) {
    link(at).tabIndex = -1;
    at.classList.remove("fresh-row");
  }
  at = row;
  row.classList.add("on");
  link(row).tabIndex = 0;
  if (!quiet) {
    link(row).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    showPreview(row);
  }
}

function showPreview(row, now = false) {
  const preview = document.getElementById("preview");
  if (!preview || preview.getClientRects().length === 0 || preview.dataset.shown === row.dataset.case) return;
  clearTimeout(timer);
  timer = setTimeout(
    () => {
      preview.dataset.shown = row.dataset.case;
      const back = root.dataset.back ? `?${root.dataset.back}` : "";
      window.htmx.ajax("GET", `${root.dataset.preview}${row.dataset.case}${back}`, { target: "#preview", swap: "innerHTML" });
    },
    now ? 0 : PREVIEW_MS,
  );
}

function amounts(some) {
  const sums = new Map();
  for (const row of some) {
    const cell = row.querySelector(".mo");
    for (const part of (cell.title || cell.textContent.trim()).split(", ")) {
      const found = /^(?:([A-Z]{3}) )?([\d,]+(?:\.\d+)?)$/.exec(part);
      if (!found) continue;
      const code = found[1] ?? root.dataset.code;
      const [whole, cents = ""] = found[2].replaceAll(",", "").split(".");
      const known = sums.get(code) ?? 0n;
      sums.set(code, known + BigInt(whole) * 100n + BigInt(cents.padEnd(2, "0").slice(0, 2)));
    }
  }
  return [...sums].map(([code, sum]) => {
    const whole = (sum / 100n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
    return `${code} ${whole}.${(sum % 100n).toString().padStart(2, "0")}`.trim();
  });
}

function showPicked() {
  const bar = document.getElementById("pick");
  if (!bar) return;
  const some = picked();
  const count = every ? Number(list.dataset.total) : some.length;
  bar.hidden = count === 0;
  document.getElementById("every").disabled = !every;
  document.getElementById("every").value = every ? "1" : "";
  const chosen = document.getElementById("picked");
  chosen.replaceChildren();
  const strong = document.createElement("b");
  strong.textContent = every ? `All ${count.toLocaleString("en")} of this filter` : `${count} selected`;
  chosen.append(strong, every ? "" : ` ${amounts(some).join(", ")}`);
  document.getElementById("resolve-n").textContent = String(count);
  for (const row of some) row.classList.add("pick");
  for (const row of rows().filter((each) => !box(each).checked)) row.classList.remove("pick");
}

function move(by) {
  const all = rows();
  const next = all[Math.min(all.length - 1, Math.max(0, all.indexOf(at) + by))];
  focusRow(next);
}

function selectTo(row) {
  const all = rows();
  const last = all.findLastIndex((each, number) => number < all.indexOf(row) && box(each).checked);
  for (const each of all.slice(Math.max(0, last), all.indexOf(row) + 1)) box(each).checked = true;
}

function act(key) {
  const button = document.querySelector(`#pick [data-act="${key}"]`);
  if (!button || button.disabled) return false;
  if (picked().length === 0 && !every && at) {
    if (key === "a" && assignAtOnce([at])) return true;
    box(at).checked = true;
    showPicked();
  }
  if (key === "a" && !every) return assignAtOnce(picked());
  button.click();
  return true;
}

function assignAtOnce(some) {
  const form = document.getElementById("at-once");
  if (!form || some.length === 0) return false;
  const cases = document.getElementById("at-once-cases");
  cases.replaceChildren(
    ...some.map((row) => {
      const field = document.createElement("input");
      field.type = "hidden";
      field.name = "case";
      field.value = row.dataset.case;
      return field;
    }),
  );
  keep();
  form.submit();
  return true;
}

function onKey(event) {
  // A dialog that has just been closed may keep the focus for a moment.
  const field = event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog");
  const typed = field && !field.closest("dialog:not([open])");
  if (typed || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.documentElement.dataset.keys === "off" || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && (picked().length || every)) {
    for (const row of picked()) box(row).checked = false;
    every = false;
    showPicked();
    event.preventDefault();
    return;
  }
  const done = {
    j: () => move(1),
    k: () => move(-1),
    " ": () => at && event.target.closest?.("#cases, main") === event.target.closest?.("#cases") && look(),
    x: () => at && pick(at),
    X: () => at && (selectTo(at), showPicked()),
    "*": () => ((every = true), showPicked()),
    o: () => at && link(at).click(),
    h: () => at && hold(),
    b: () => at && hold(),
    ...Object.fromEntries([..."asenmr"].map((key) => [key, () => act(key)])),
  }[event.key];
  if (!done || !list) return;
  if (done() !== false) event.preventDefault();
}

function pick(row) {
  box(row).checked = !box(row).checked;
  every = false;
  showPicked();
}

function look() {
  showPreview(at, true);
  document.getElementById("preview")?.focus();
}

function hold() {
  const target = new URL(link(at).href);
  target.searchParams.set("ask", "hold");
  location.assign(target);
}

// --- what comes back with Back: scroll, focus, selection -------------------------------------------------------------

function keep() {
  if (!list) return;
  const shown = at ? at.getBoundingClientRect().top - list.getBoundingClientRect().top : 0;
  const kept = { at: at?.dataset.case, shown, picked: picked().map((row) => row.dataset.case) };
  sessionStorage.setItem(place, JSON.stringify(kept));
}

async function bring() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(place));
  } catch {
    kept = null;
  }
  if (!kept?.at) {
    focusRow(rows()[0], { quiet: true });
    return;
  }
  const find = () => rows().find((each) => each.dataset.case === kept.at);
  for (let tries = 0; !find() && tries < 8 && (await next()); tries++);
  const row = find();
  focusRow(row ?? rows()[0], { quiet: true });
  if (!row) return;
  list.scrollTop += row.getBoundingClientRect().top - list.getBoundingClientRect().top - kept.shown;
  link(row).focus({ preventScroll: true });
  showPreview(row, true);
  for (const each of rows()) if (kept.picked?.includes(each.dataset.case) && !document.getElementById("ask")) box(each).checked = true;
  showPicked();
}

// --- the next rows ---------------------------------------------------------------------------------------------------

let loading = null;

function next() {
  const more = document.getElementById("more-rows");
  if (!more) return false;
  loading ??= fetch(`${more.firstElementChild.dataset.more}&code=${root.dataset.code}`, { headers: { "HX-Request": "true" } })
    .then(async (answer) => {
      if (!answer.ok) return false;
      const part = new DOMParser().parseFromString(`<ol>${await answer.text()}</ol>`, "text/html");
      const came = [...part.querySelectorAll("ol > li")].map((each) => document.importNode(each, true));
      more.replaceWith(...came);
      for (const row of rows()) if (row !== at) link(row).tabIndex = -1;
      watchEnd();
      return true;
    })
    .catch(() => false)
    .finally(() => (loading = null));
  return loading;
}

function watchEnd() {
  const more = document.getElementById("more-rows");
  if (!more) return;
  const seen = new IntersectionObserver(
    (found) => {
      if (found.some((each) => each.isIntersecting)) {
        seen.disconnect();
        next();
      }
    },
    { root: list, rootMargin: `${AHEAD_PX}px` },
  );
  seen.observe(more);
}

function start() {
  document.addEventListener("keydown", onKey, true);
  if (!list) return;
  for (const row of rows()) {
    link(row).tabIndex = -1;
    box(row).tabIndex = -1;
  }
  list.addEventListener("change", () => ((every = false), showPicked()));
  list.addEventListener("click", (event) => {
    const row = event.target.closest("li.case");
    if (row && !event.target.closest("a")) focusRow(row);
    else if (row) focusRow(row, { quiet: true });
  });
  list.addEventListener("focusin", (event) => {
    const row = event.target.closest("li.case");
    if (row && row !== at && event.target.matches("a")) focusRow(row);
  });
  window.addEventListener("pagehide", keep);
  document.getElementById("preview")?.setAttribute("data-shown", rows()[0]?.dataset.case ?? "");
  showPicked();
  watchEnd();
  bring();
}

if (root) {
  start();
  startNews(document.getElementById("news"), document.getElementById("news-status"));
}
document.querySelector("#ask input:not([type=hidden]), #ask select, #ask textarea, #ask button")?.focus();
