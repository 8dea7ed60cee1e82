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

/** The server's answer to the form as it stands; null after a later request, or if the server cannot be reached.
 * ``list``: of what is not there yet in the form, what is sent: that of this list alone. */
export async function askFor(path, more = {}, list = null) {
  const mine = ++asked;
  const data = new URLSearchParams(new FormData(form));
  for (const name of [...data.keys()]) if (name.includes("/+/") && !name.startsWith(`f.${list}/+/`)) data.delete(name);
  for (const [name, value] of Object.entries(more)) data.set(name, value);
  try {
    const answer = await fetch(path, { method: "POST", body: data, headers: { "HX-Request": "true" } });
    if (mine !== asked || !answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return null;
  }
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
    message: each.dataset.caption,
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
  const other = area.value !== area.defaultValue; // the proof is of the text that was sent
  const [ask, stale] = ["ask", "stale"].map((each) => document.getElementById(each));
  if (ask) ask.hidden = other;
  if (stale) {
    stale.dataset.was ??= stale.hidden ? "fresh" : "stale";
    stale.hidden = !other && stale.dataset.was === "fresh";
  }
}

/** Another text, which the server made of the form or of a threshold. */
export function setText(text) {
  area.value = text;
  code?.replace(text);
  hideAsk();
}

/** Fields of the form, as they are set: the text follows. What is not there yet waits for its button. */
function fillFrom(event) {
  if (!event.target.name?.startsWith("f.") || event.target.name.includes("/+/")) return;
  clearTimeout(timer);
  timer = setTimeout(async () => take(await askFor(form.dataset.fill)), WAIT_MS);
}

/** A part that is added, moved or removed, or another type: at once, and the focus stays by it. */
async function actFrom(event) {
  const button = event.target.closest("#fields button[name]:not([name=view])");
  if (!button) return;
  event.preventDefault();
  clearTimeout(timer);
  const list = button.name === "more" ? button.value : null;
  const page = await askFor(form.dataset.fill, { [button.name]: button.value }, list);
  if (!page) return;
  const stays = page.getElementById("text").value === area.value;
  take(page, !stays, stays ? null : list);
  if (!stays) focusOn(list === null ? after(button.name) : [`f.${list}/+/field`, `f.${list}/+/name`]);
}

/** Where the eye is after a part was moved or removed: at it, or at what took its place. */
function after(name) {
  const found = name.match(/^(.*\/)(\d+)\/(up|down|remove)$/);
  if (!found) return ["f.rule_type"];
  const [, list, place, act] = found;
  const at = Number(place) + { up: -1, down: 1, remove: 0 }[act];
  return [`${list}${at}/${act}`, `${list}${at}/${act === "up" ? "down" : "up"}`, `${list}${at - 1}/remove`, `${list}+/field`, `${list}+/name`];
}

function focusOn(names) {
  for (const name of names) {
    const found = document.querySelector(`#fields [name="${CSS.escape(name)}"]`);
    const closed = found?.closest("details:not([open])");
    const target = closed ? closed.querySelector("summary") : found;
    if (target) return target.focus();
  }
}

/** What the server made of the form. ``anew``: all fields; else they stay, and take the values that they have now. */
function take(page, anew = false, added = null) {
  if (!page) return;
  const fields = document.getElementById("fields");
  const made = page.getElementById("fields");
  setText(page.getElementById("text").value);
  showChecked(page);
  if (!made || !fields) return;
  const names = (root) => [...root.querySelectorAll("[name]")].map((each) => each.name).join();
  if (anew || names(made) !== names(fields)) renew(fields, made, added);
  else update(fields, made);
}

/** Other fields in place of these: what was typed of what is not there yet stays, and what was open is open. */
function renew(fields, made, added) {
  const focused = document.activeElement?.id;
  for (const each of fields.querySelectorAll("details[open]")) {
    const same = made.querySelector(`details[data-more="${CSS.escape(each.dataset.more)}"]`);
    if (same) same.open = true;
  }
  for (const each of fields.querySelectorAll('[name*="/+/"]')) {
    const same = made.querySelector(`[name="${CSS.escape(each.name)}"]`);
    if (same && !(added !== null && each.name.startsWith(`f.${added}/+/`))) same.value = each.value;
  }
  fields.replaceWith(made);
  if (focused) document.getElementById(focused)?.focus();
}

function update(fields, made) {
  for (const each of made.querySelectorAll("[name^='f.']")) {
    const mine = document.getElementById(each.id);
    if (!mine) continue;
    if (mine !== document.activeElement && !each.name.includes("/+/") && mine.value !== each.value) mine.value = each.value;
    for (const name of ["aria-invalid", "aria-describedby"]) {
      if (each.hasAttribute(name)) mine.setAttribute(name, each.getAttribute(name));
      else mine.removeAttribute(name);
    }
  }
  const parts = (root) => [...root.querySelectorAll(".wrong, #turn, #left")];
  const [old, now] = [parts(fields), parts(made)];
  if (old.length === now.length) old.forEach((each, place) => each.replaceChildren(...now[place].childNodes));
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
    const update = (text) => {
      if (text === area.value) return;
      area.value = text;
      changed();
    };
    host.hidden = false;
    code = editor(host, area.value, "Text of the rule", "leave", update);
    area.hidden = true;
    mark();
  }
  area.addEventListener("input", changed);
  form.addEventListener("input", fillFrom);
  form.addEventListener("click", actFrom);
  document.addEventListener("keydown", press, true);
  place.addEventListener("click", jump);
}

if (form && area && place) start();
