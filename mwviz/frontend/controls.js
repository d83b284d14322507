// Keys of the workbench: global ones first, then those of the pane that has the focus.

import { wanted } from "./acts.js";
import { act, jump } from "./keys.js";
import { describe } from "./tips.js";
import { corner, showTip } from "./tooltip.js";

const PAN = 0.18; // share of what is in sight that a key moves
const ZOOMS = { "+": 0.75, "=": 0.75, "-": 1 / 0.75 };
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PANS = { "Shift+ArrowLeft": [-PAN, 0], a: [-PAN, 0], "Shift+ArrowRight": [PAN, 0], "Shift+ArrowUp": [0, -PAN], w: [0, -PAN], "Shift+ArrowDown": [0, PAN], s: [0, PAN] };

/** Acts on a key anywhere in the workbench; keys that mean nothing here stay the page's. */
export function keyDown(bench, parts, acts, event) {
  if (!bench.model || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select")) return;
  if (event.target.closest?.("button, tr") && (event.key === "Enter" || event.key === " ")) return;
  const name = event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
  if (!press(bench, parts, acts, name, event.target)) return;
  event.preventDefault();
  event.stopPropagation();
}

// Keys that mean the same wherever the focus is; `pane` is the name of the pane that has it.
const EVERYWHERE = {
  "?": (acts) => acts.help(),
  "/": (acts) => acts.find(),
  g: (acts) => acts.goTo(),
  o: (acts) => acts.nextOverlay(),
  x: (acts) => acts.order(),
  m: (acts) => acts.view(),
  p: (acts) => acts.pin(),
  1: (acts) => acts.shape("contexts"),
  2: (acts) => acts.shape("tree"),
  3: (acts) => acts.shape("nodes"),
  z: (acts) => acts.exact(),
  e: (acts) => acts.explain(),
  y: (acts) => acts.link(),
  f: (acts, pane) => acts.full(pane),
  t: (acts, pane) => acts.table(pane),
};

function press(bench, parts, acts, key, element) {
  const { page, panes } = parts;
  const { mask, text, drift: strip, tree, nodes, timeline } = panes;
  const at = bench.hover ?? bench.selected;
  if (key === "Escape") return letGo(bench, parts, acts);
  if (Object.hasOwn(EVERYWHERE, key)) return EVERYWHERE[key](acts, paneOf(page, element)), true;
  if (parts.dialog.open) return false;
  if (key === "Enter") return bench.choose(at), true;
  const found = wanted(bench, key, at?.target ?? null);
  if (found) return bench.go(found), true;
  const walk = { hover: at, view: timeline.view, bounds: timeline.bounds(), tree: bench.model.tree, layout: bench.model.layout };
  const jumped = jump(key, walk);
  if (jumped) return bench.go(jumped), true;
  const pane = [mask, text, strip, tree, nodes].find(({ stage }) => stage === element) ?? { tree, nodes }[bench.shape];
  if (!pane) return onTimeline(bench, page, panes, key, walk);
  if (key in STEPS) pane.step(...(pane === mask ? STEPS[key] : [STEPS[key][0] || STEPS[key][1]]));
  else if (key in ZOOMS && pane.zoom) pane.zoom(ZOOMS[key]);
  else if (key in PANS && pane.pan) pane.pan(...PANS[key]);
  else if (key === "0" && pane.reset) pane.reset();
  else return false;
  tellKeys(bench, page, pane);
  return true;
}

function paneOf({ root, panes }, element) {
  const box = element.closest?.(".mw-pane");
  return root.dataset.full ?? Object.keys(panes).find((name) => panes[name].box === box) ?? "timeline";
}

function onTimeline(bench, page, panes, key, walk) {
  const change = act(key, walk);
  if (!change) return false;
  panes.timeline.setView(change.view);
  if (change.hover) bench.point({ target: null, key: null, ...change.hover }, null);
  tellKeys(bench, page, panes.timeline);
  return true;
}

// Says what the keys point at, and shows it at its place in the pane once that is drawn.
function tellKeys(bench, page, pane) {
  if (!bench.hover) return;
  const told = describe(bench, bench.hover);
  page.said.textContent = `${told.title}: ${told.facts}`;
  bench.onceDrawn = () => {
    const spot = pane?.spot?.(bench.hover);
    if (spot) showTip(page, told, corner(page, pane.stage, spot));
  };
  bench.repaint();
}

// One level up: the box, the search, the full screen, what is pointed at, the pin.
function letGo(bench, { page, dialog, finder }, acts) {
  if (dialog.open) dialog.close();
  else if (finder.open) finder.close();
  else if (page.root.dataset.full) acts.full(page.root.dataset.full);
  else if (bench.hover) bench.point(null);
  else if (bench.pinned) {
    bench.pinned = null;
    acts.changed();
  } else return false;
  return true;
}
