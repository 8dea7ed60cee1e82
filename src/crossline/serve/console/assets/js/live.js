// One connection for live events, whatever the number of tabs: the tab that holds a lock listens and passes events to the others.
// Pages get events as `crossline:event` on document, with {kind, id, body}; the mark in the header shows how far behind they are.

const NAME = "crossline-live";
const ADDRESS = "/events?kinds=alert,correction,revision,case,prediction";
const KINDS = ["alert", "correction", "revision", "case", "prediction", "gap"];

let since = null; // when the connection broke, in ms of the epoch
let ticking = null;

function clock(ms) {
  const zone = document.documentElement.dataset.zone || "UTC";
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(ms);
}

function show(state) {
  const mark = document.getElementById("live");
  if (!mark) return;
  if (state === "behind") since ??= Date.now();
  else since = null;
  const text = () => {
    if (since === null) return "Live";
    return `${Math.max(1, Math.round((Date.now() - since) / 1000))} s behind, since ${clock(since)}`;
  };
  mark.hidden = false;
  mark.dataset.state = state;
  mark.lastElementChild.textContent = text();
  clearInterval(ticking);
  // The seconds are for the eye; screen readers announce the change once.
  if (state === "behind") ticking = setInterval(() => (mark.lastElementChild.textContent = text()), 5000);
}

function deliver(message) {
  if (message.state) show(message.state);
  else document.dispatchEvent(new CustomEvent("crossline:event", { detail: message }));
}

function listen(report) {
  return new Promise(() => {
    const source = new EventSource(ADDRESS);
    source.addEventListener("open", () => report({ state: "live" }));
    source.addEventListener("error", () => report({ state: "behind" }));
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => report({ kind, id: event.lastEventId, body: JSON.parse(event.data) }));
    }
  });
}

export function startLive() {
  if (!document.getElementById("live") || !window.EventSource) return;
  const channel = new BroadcastChannel(NAME);
  let state = "connecting";
  const report = (message) => {
    if (message.state) state = message.state;
    deliver(message);
    channel.postMessage(message);
  };
  let leads = false;
  channel.addEventListener("message", ({ data }) => {
    if (data.asks) {
      if (leads) channel.postMessage({ state });
    } else {
      deliver(data);
    }
  });
  channel.postMessage({ asks: true });
  const lead = () => {
    leads = true;
    return listen(report);
  };
  // Locks are there where the address is this machine's, or has TLS; else each tab has a connection of its own.
  if (navigator.locks) navigator.locks.request(NAME, lead);
  else lead();
}
