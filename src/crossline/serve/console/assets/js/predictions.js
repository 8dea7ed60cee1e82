// Predictions that break or hold again: what is marked as live is read anew in its place, and announced to screen readers.

const ASK_MS = 500; // several at once are one question
let waiting = null;

async function ask() {
  waiting = null;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = document.activeElement?.getAttribute("href");
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = page.getElementById(old.id);
    if (!now || now.innerHTML === old.innerHTML) continue;
    const had = old.contains(document.activeElement);
    old.replaceWith(document.adoptNode(now));
    if (had && focused) [...now.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }
}

document.addEventListener("crossline:event", ({ detail }) => {
  if (detail.kind !== "prediction" && detail.kind !== "gap") return;
  const place = document.getElementById("status");
  if (place && detail.kind === "prediction") place.textContent = `${detail.body.rule_id}: prediction ${detail.body.state}; ${detail.body.text}`;
  waiting ??= setTimeout(ask, ASK_MS);
});
