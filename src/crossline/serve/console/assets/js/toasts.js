// A toast goes after 8 s, unless it is focused or under the pointer.

const SHOWN_MS = 8000;

function watch(toast) {
  let timer;
  const begin = () => (timer = setTimeout(() => toast.remove(), SHOWN_MS));
  const hold = () => clearTimeout(timer);
  toast.addEventListener("focusin", hold);
  toast.addEventListener("focusout", begin);
  toast.addEventListener("pointerenter", hold);
  toast.addEventListener("pointerleave", begin);
  begin();
}

export function startToasts() {
  const place = document.getElementById("toasts");
  if (!place) return;
  for (const each of place.querySelectorAll("[data-toast]")) watch(each);
  new MutationObserver((changes) => {
    for (const change of changes) {
      for (const each of change.addedNodes) {
        if (each instanceof HTMLElement && each.matches("[data-toast]")) watch(each);
      }
    }
  }).observe(place, { childList: true });
}
