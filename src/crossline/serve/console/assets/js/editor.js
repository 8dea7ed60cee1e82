// The text of a rule is checked as one types, by the server, in the command line's own words. Ctrl+S saves, Ctrl+Enter runs
// the backtest. Without it the page is a plain form.

const WAIT_MS = 250;
const form = document.getElementById("editor");
const area = document.getElementById("text");
const place = document.getElementById("checked");
let timer;
let asked = 0;

async function check() {
  const mine = ++asked;
  const data = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.dataset.check, { method: "POST", body: data, headers: { "HX-Request": "true" } });
  const html = await answer.text();
  if (mine !== asked) return; // a later text was sent meanwhile
  const parsed = new DOMParser().parseFromString(html, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
  document.dispatchEvent(new CustomEvent("crossline:checked"));
}

export function changed() {
  clearTimeout(timer);
  timer = setTimeout(check, WAIT_MS);
  const ask = document.getElementById("ask");
  if (ask && area.value !== area.defaultValue) ask.hidden = true; // the proof is of the text that was sent
}

function press(event) {
  if (!(event.ctrlKey || event.metaKey)) return;
  const name = event.key === "s" ? "save" : event.key === "Enter" ? "run" : "";
  if (!name) return;
  event.preventDefault();
  form.requestSubmit(document.getElementById(name));
}

if (form && area && place) {
  area.addEventListener("input", changed);
  form.addEventListener("keydown", press);
}
