// Draws the links of the table, by Cytoscape. What is chosen in the one is marked in the other; a double click
// goes to the links of an entity. Colours are read from the page, so that they are those of the theme.

const STYLE_ID = "__________cytoscape_stylesheet";
const FONT = 'Inter, system-ui, sans-serif';
const SIZES = [28, 18, 13, 11]; // by steps, in px

const holder = document.getElementById("drawing");
const wide = matchMedia("(min-width: 721px)");
let graph = null;

function inks() {
  const of = (name) => getComputedStyle(document.querySelector(`.inks .${name}`)).color;
  return { text: of("t1"), faint: of("t3"), accent: of("lk"), crit: of("c-crit"), paper: of("on-s"), line: of("rule") };
}

function styles() {
  const ink = inks();
  return [
    {
      selector: "node",
      style: {
        shape: "data(shape)", width: "data(size)", height: "data(size)", label: "data(label)",
        "background-color": ink.paper, "border-width": 1.5, "border-color": ink.text,
        color: ink.text, "font-family": FONT, "font-size": 11, "text-valign": "bottom", "text-margin-y": 3,
        "text-wrap": "wrap", "text-background-color": ink.paper, "text-background-opacity": 0.8,
        "min-zoomed-font-size": 7, "overlay-opacity": 0,
      },
    },
    { selector: "node[stopped]", style: { "border-color": ink.crit, "border-width": 3, color: ink.crit } },
    { selector: "node[steps = 0]", style: { "background-color": ink.accent, "font-weight": 600 } },
    {
      selector: "edge",
      style: {
        width: "data(width)", "line-color": ink.line, "curve-style": "straight", "overlay-opacity": 0,
        color: ink.faint, "font-family": FONT, "font-size": 10, "text-background-color": ink.paper,
        "text-background-opacity": 1,
      },
    },
    { selector: ".far", style: { opacity: 0.25 } },
    { selector: "node.cur", style: { "border-color": ink.accent, "border-width": 4 } },
    { selector: "edge.near", style: { "line-color": ink.accent, label: "data(label)" } },
  ];
}

function elements(given) {
  const nodes = given.nodes.map((each, place) => ({
    data: {
      id: `n${place}`, place, steps: each.steps, shape: each.shape, path: each.path,
      size: SIZES[each.steps], label: each.stopped ? `${each.text}\n${each.stopped}` : each.text,
      ...(each.stopped ? { stopped: each.stopped } : {}),
    },
  }));
  const links = given.links.map(([source, target, alerts]) => ({
    data: {
      source: `n${source}`, target: `n${target}`, width: Math.min(4, 1 + Math.log2(Math.max(1, alerts)) / 2),
      label: alerts === 1 ? "1 alert" : `${alerts} alerts`,
    },
  }));
  return [...nodes, ...links];
}

// Rings by steps first, each in the order of the table; from there the forces, always to the same drawing.
function laidOut() {
  graph.layout({
    name: "concentric", animate: false, concentric: (node) => -node.data("steps"), levelWidth: () => 1,
    minNodeSpacing: 24,
  }).run();
  graph.layout({
    name: "cose", animate: false, randomize: false, nodeDimensionsIncludeLabels: true, nodeRepulsion: () => 60000,
    idealEdgeLength: () => 60, nodeOverlap: 30, gravity: 0.4, numIter: 1000, fit: false,
  }).run();
  whole();
}

function choose(place, from) {
  for (const row of document.querySelectorAll("tr[data-place]")) {
    row.classList.toggle("cur", row.dataset.place === String(place));
    if (from === "drawing" && row.dataset.place === String(place)) row.scrollIntoView({ block: "nearest" });
  }
  graph.elements().removeClass("far near cur");
  const node = place === null ? graph.collection() : graph.getElementById(`n${place}`);
  if (node.empty()) return;
  graph.elements().not(node.closedNeighborhood()).addClass("far");
  node.addClass("cur").connectedEdges().addClass("near");
}

// All of it; few nodes are not drawn larger than many.
function whole() {
  graph.fit(undefined, 32);
  if (graph.zoom() > 1) {
    graph.zoom(1);
    graph.center();
  }
}

function zoom(by) {
  if (by === 0) whole();
  else graph.zoom({ level: graph.zoom() * by, renderedPosition: { x: graph.width() / 2, y: graph.height() / 2 } });
}

function followTheme() {
  const again = () => graph.style(styles());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

function follow() {
  graph.on("tap", (event) => choose(event.target === graph || event.target.isEdge() ? null : event.target.data("place"), "drawing"));
  graph.on("dbltap", "node", (event) => location.assign(event.target.data("path")));
  for (const row of document.querySelectorAll("tr[data-place]")) {
    const mine = Number(row.dataset.place);
    row.addEventListener("focusin", () => choose(mine, "table"));
    row.addEventListener("click", () => choose(mine, "table"));
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  }
  followTheme();
}

function draw() {
  if (graph || !wide.matches) return;
  holder.closest(".drawn").hidden = false;
  document.getElementById("links").classList.add("beside");
  // Cytoscape puts a style of its own into the page where nothing has this id; the policy would refuse it, and ours has it.
  document.querySelector("link[rel=stylesheet]").id = STYLE_ID;
  graph = window.cytoscape({
    container: holder, elements: elements(JSON.parse(holder.dataset.graph)), style: styles(),
    userZoomingEnabled: false, boxSelectionEnabled: false, minZoom: 0.2, maxZoom: 3, layout: { name: "null" },
  });
  laidOut();
  follow();
  holder.dataset.drawn = String(graph.nodes().length);
}

if (holder) {
  draw();
  wide.addEventListener("change", draw);
}
