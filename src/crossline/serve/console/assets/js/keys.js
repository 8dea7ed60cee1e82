// Single keys: an element with data-key is focused, where it takes text, or pressed. `g` and a letter go to a page.
// `?` opens the sheet of keys. Off in fields, and where the profile turns them off (WCAG 2.1.4).

const GO_MS = 1500;
let going = 0; // until when a letter after `g` counts, in ms of performance.now()

function inField(target) {
  // A dialog that has just been closed may keep the focus for a moment.
  if (!(target instanceof HTMLElement) || target.closest("dialog:not([open])")) return false;
  return target.isContentEditable || target.matches("input, textarea, select");
}

function isShown(element) {
  return element.getClientRects().length > 0;
}

function cameFromHere() {
  return document.referrer.startsWith(`${location.origin}/`) && history.length > 1;
}

function press(key) {
  const found = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key && isShown(each));
  if (!found) return false;
  if (found.matches("input:not([type=checkbox]):not([type=radio]), textarea, select")) {
    found.focus();
    found.select?.();
  } else {
    found.click();
  }
  return true;
}

function goTo(letter) {
  const lines = document.getElementById("keys-go")?.content.querySelectorAll("a") ?? [];
  const found = [...lines].find((each) => each.textContent.trim().toLowerCase().startsWith(letter));
  if (found) location.assign(found.getAttribute("href"));
  return Boolean(found);
}

function filterSheet(text) {
  for (const row of document.querySelectorAll("#keys .keys li")) {
    row.hidden = !row.textContent.toLowerCase().includes(text.toLowerCase());
  }
}

function startSheet() {
  const sheet = document.getElementById("keys");
  const opener = document.getElementById("keys-open");
  if (!sheet || !opener) return () => {};
  const filter = document.getElementById("keys-filter");
  const open = () => {
    filter.value = "";
    filterSheet("");
    sheet.showModal();
    filter.focus();
  };
  opener.hidden = false;
  opener.addEventListener("click", open);
  document.getElementById("keys-close").addEventListener("click", () => sheet.close());
  filter.addEventListener("input", () => filterSheet(filter.value));
  return open;
}

export function startKeys() {
  const openSheet = startSheet();
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && inField(event.target) && !event.target.closest("dialog")) {
      event.target.blur();
      return;
    }
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && cameFromHere()) {
      history.back();
      return;
    }
    if (inField(event.target) || document.querySelector("dialog[open]")) return;
    if (document.documentElement.dataset.keys === "off") return;
    const now = performance.now();
    let done;
    if (now < going) {
      going = 0;
      done = goTo(event.key.toLowerCase());
    } else if (event.key === "g") {
      going = now + GO_MS;
      done = true;
    } else if (event.key === "?") {
      openSheet();
      done = true;
    } else {
      done = press(event.key);
    }
    if (done) event.preventDefault();
  });
}
