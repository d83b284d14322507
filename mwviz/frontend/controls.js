// Keys of the workbench: global ones first, then those of the pane that has the focus.

import { act, jump, seek } from "./keys.js";
import { OVERLAYS } from "./pixels.js";
import { describe } from "./tips.js";
import { corner, showTip } from "./tooltip.js";

/** The mark that d, D, l or L lead to from target `at`, or null. */
export function wanted(bench, key, at) {
  const target = seek(key, bench.under, at);
  return target === null ? null : bench.completed({ target });
}

/** Acts on a key anywhere in the workbench; keys that mean nothing here stay the page's. */
export function keyDown(bench, page, panes, event) {
  if (!bench.model || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button")) return;
  const name = event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
  if (!press(bench, page, panes, name, event.target)) return;
  event.preventDefault();
  event.stopPropagation();
}

function press(bench, page, panes, key, element) {
  const { mask, text, drift: strip, timeline } = panes;
  const at = bench.hover ?? bench.selected;
  if (key === "?") return page.help.hidden = !page.help.hidden, true;
  if (key === "o") return bench.setOverlay(OVERLAYS[(OVERLAYS.indexOf(bench.overlay) + 1) % OVERLAYS.length]), true;
  if (key === "Escape") return letGo(bench, page);
  if (key === "Enter") return bench.choose(at), true;
  const found = wanted(bench, key, at?.target ?? null);
  if (found) return bench.go(found), true;
  const walk = { hover: at, view: timeline.view, bounds: timeline.bounds(), tree: bench.model.tree, layout: bench.model.layout };
  const jumped = jump(key, walk);
  if (jumped) return bench.go(jumped), true;
  const pane = [mask, text, strip].find(({ stage }) => stage === element);
  if (!pane) return onTimeline(bench, page, panes, key, walk);
  const zooms = { "+": 0.75, "=": 0.75, "-": 1 / 0.75 };
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (key in steps) pane.step(...(pane === mask ? steps[key] : [steps[key][0] || steps[key][1]]));
  else if (key in zooms && pane.zoom) pane.zoom(zooms[key]);
  else if (key === "0" && pane.reset) pane.reset();
  else if (key === "1") mask.exact();
  else return false;
  tellKeys(bench, page, pane);
  return true;
}

function onTimeline(bench, page, panes, key, walk) {
  const change = act(key, walk);
  if (!change) return false;
  panes.timeline.setView(change.view);
  if (change.hover) bench.point({ target: null, key: null, ...change.hover }, null);
  tellKeys(bench, page, panes.timeline);
  return true;
}

// Shows and says what the keys point at, at its place in the pane.
function tellKeys(bench, page, pane) {
  if (!bench.hover) return;
  const told = describe(bench, bench.hover);
  page.said.textContent = `${told.title}: ${told.facts}`;
  if (pane?.spot) showTip(page, told, corner(page, pane.stage, pane.spot(bench.hover)));
}

function letGo(bench, page) {
  if (!page.help.hidden) page.help.hidden = true;
  else if (bench.hover) bench.point(null);
  else return false;
  return true;
}
