// The text of a rule: an editor with colours in place of the field, faults of the server at their lines, Ctrl+S saves,
// Ctrl+Enter runs the backtest. Without it the page is a plain form.

import { editor } from "../vendor/codemirror.js";

const WAIT_MS = 250;
const form = document.getElementById("editor");
const area = document.getElementById("text");
const place = document.getElementById("checked");
let timer;
let asked = 0;
let code;

/** What the server says of the form as it stands; null where a later one was asked meanwhile. */
export async function askFor(path, more = {}) {
  const mine = ++asked;
  const data = new URLSearchParams(new FormData(form));
  for (const [name, value] of Object.entries(more)) data.set(name, value);
  const answer = await fetch(path, { method: "POST", body: data, headers: { "HX-Request": "true" } });
  if (mine !== asked || !answer.ok) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/** Shows what was checked, in the list and at the lines. */
export function showChecked(page) {
  const found = page?.getElementById("checked") ?? page?.body;
  if (!found) return;
  place.replaceChildren(...found.childNodes);
  mark();
  document.dispatchEvent(new CustomEvent("crossline:checked"));
}

function mark() {
  const faults = [...place.querySelectorAll("[data-line]")].map((each) => ({
    line: Number(each.dataset.line),
    severity: each.dataset.warning ? "warning" : "error",
    message: each.dataset.said,
  }));
  const lines = (place.querySelector("[data-changed]")?.dataset.changed ?? "").split(" ").filter(Boolean).map(Number);
  code?.tell(faults, lines);
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(async () => showChecked(await askFor(form.dataset.check)), WAIT_MS);
  hideAsk();
}

function hideAsk() {
  const ask = document.getElementById("ask");
  if (ask) ask.hidden = area.value !== area.defaultValue; // the proof is of the text that was sent
}

/** Another text, which the server made of the form or of a threshold. */
export function setText(text) {
  area.value = text;
  code?.replace(text);
  hideAsk();
}

/** Fields of the form, as they are set: the text follows. What is not there yet waits for its button. */
async function fillFrom(event) {
  const fields = document.getElementById("fields");
  if (!event.target.name?.startsWith("f.") || event.target.name.includes("/+/") || event.target.type === "checkbox") return;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const page = await askFor(form.dataset.fill);
    if (!page) return;
    setText(page.getElementById("text").value);
    showChecked(page);
    const made = page.getElementById("fields");
    const names = (root) => [...root.querySelectorAll("[name]")].map((each) => each.name).join();
    if (!made || names(made) === names(fields)) return;
    const focused = document.activeElement?.id;
    fields.replaceWith(made);
    document.getElementById(focused)?.focus();
  }, WAIT_MS);
}

function press(event) {
  if (!(event.ctrlKey || event.metaKey)) return;
  const name = event.key === "s" ? "save" : event.key === "Enter" ? "run" : "";
  if (!name) return;
  event.preventDefault();
  event.stopPropagation();
  form.requestSubmit(document.getElementById(name));
}

function jump(event) {
  const row = event.target.closest("[data-line]");
  if (!row || !event.target.closest("a") || !code) return;
  event.preventDefault();
  code.goTo(Number(row.dataset.line));
}

function start() {
  const host = document.getElementById("code");
  if (host) {
    const told = (text) => {
      if (text === area.value) return;
      area.value = text;
      changed();
    };
    host.hidden = false;
    code = editor(host, area.value, "Text of the rule", "leave", told);
    area.hidden = true;
    mark();
  }
  area.addEventListener("input", changed);
  form.addEventListener("input", fillFrom);
  document.addEventListener("keydown", press, true);
  place.addEventListener("click", jump);
}

if (form && area && place) start();
