// New cases of the view: shown as a count, announced to screen readers at most every 30 s; the list does not move.

const ASK_MS = 1000; // many changes at once are one question
const ANNOUNCE_MS = 30000;

export function startNews(place, status) {
  if (!place) return;
  let waiting = null;
  let announced = 0;
  let speaking = null;
  const speak = () => {
    speaking = null;
    announced = performance.now();
    status.textContent = place.textContent.trim().replace(/\s*\.$/, "");
  };
  const ask = async () => {
    waiting = null;
    const answer = await fetch(place.dataset.news, { headers: { "HX-Request": "true" } });
    if (!answer.ok) return;
    const text = await answer.text();
    if (text.trim() === "") return;
    place.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    speaking ??= setTimeout(speak, announced === 0 ? 0 : Math.max(0, ANNOUNCE_MS - (performance.now() - announced)));
  };
  document.addEventListener("crossline:event", ({ detail }) => {
    if (detail.kind === "case" || detail.kind === "gap") waiting ??= setTimeout(ask, ASK_MS);
  });
}
