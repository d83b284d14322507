// What a search has found, on the timeline: how much each call first had, and where it stands.

import { MARGIN } from "./axes.js";
import { lastAtMost } from "./sorted.js";
import { fade } from "./theme.js";

const FEW = 60; // matches up to which each is drawn at its place
const TALL = 14; // pixels of the tallest bar

/** Bars from above, by the call that first had a match; dashes at the match shown, and at few ones. */
export function drawFound(context, scene, place) {
  drawBars(context, scene, place);
  const { matches, at } = scene.found;
  const shown = matches.length > FEW ? [matches[at]].filter(Boolean) : matches;
  const spans = spansOf(scene);
  for (const match of shown) drawPlaces(context, scene, place, spans, match, match === matches[at]);
}

function drawBars(context, { found, tree, theme }, place) {
  const counts = new Map();
  for (const { places } of found.matches) {
    const call = Math.min(...places.map((node) => tree.segments.firstCall[lastAtMost(tree.segments.start, node)]));
    const left = Math.round(place.px(call));
    counts.set(left, (counts.get(left) ?? 0) + 1);
  }
  const most = Math.log1p(Math.max(0, ...counts.values()));
  context.fillStyle = theme.accent;
  for (const [left, count] of counts) {
    context.fillRect(left, MARGIN.top, Math.max(Math.floor(place.scaleX) - 1, 2), 2 + (TALL - 2) * (Math.log1p(count) / most));
  }
}

function spansOf({ layout }) {
  const spans = new Map();
  for (const span of layout.spans) {
    if (!spans.has(span.segment)) spans.set(span.segment, []);
    spans.get(span.segment).push(span);
  }
  return spans;
}

function drawPlaces(context, { tree, layout, theme }, place, spans, { places }, current) {
  const { start, depth } = tree.segments;
  context.fillStyle = current ? theme.accent : fade(theme.accent, 0.65);
  for (const node of places) {
    const segment = lastAtMost(start, node);
    for (const { lane, from, to } of spans.get(segment) ?? []) {
      const y = Math.round(place.py(layout.lanes[lane].base + depth[segment] + node - start[segment] + 0.5));
      context.fillRect(Math.round(place.px(from)), y - (current ? 2 : 1), Math.max(place.px(to) - place.px(from), 3), current ? 4 : 2);
    }
  }
}
