// What each key does to the timeline: a pure function from (key, state) to what changes.

import { contextOf, pan, zoom } from "./timeline.js";

const STEP = 0.18; // share of the view that a pan key moves
const CLOSER = 0.75;

const MOVES = {
  ArrowRight: (state) => byCall(state, 1),
  ArrowLeft: (state) => byCall(state, -1),
  j: (state) => byCall(state, 1),
  k: (state) => byCall(state, -1),
  ArrowUp: (state) => bySegment(state, 1),
  ArrowDown: (state) => bySegment(state, -1),
  n: (state) => byCut(state, 1),
  N: (state) => byCut(state, -1),
};

const VIEWS = {
  a: (view, bounds) => pan(view, bounds, -STEP * (view.x1 - view.x0), 0),
  d: (view, bounds) => pan(view, bounds, STEP * (view.x1 - view.x0), 0),
  w: (view, bounds) => pan(view, bounds, 0, STEP * (view.y1 - view.y0)),
  s: (view, bounds) => pan(view, bounds, 0, -STEP * (view.y1 - view.y0)),
  "+": (view, bounds, at) => zoom(view, bounds, at.x, at.y, CLOSER, CLOSER),
  "-": (view, bounds, at) => zoom(view, bounds, at.x, at.y, 1 / CLOSER, 1 / CLOSER),
  0: (_, bounds) => bounds,
};
VIEWS["="] = VIEWS["+"];

/** {hover, view, chosen}, or null if the key is not one of the timeline's. */
export function act(key, state) {
  const { hover, view, bounds } = state;
  if (key === "Enter") return hover && { hover, view, chosen: true };
  if (key === "Escape") return hover && { hover: null, view, chosen: false };
  if (key in VIEWS) {
    return { hover, view: VIEWS[key](view, bounds, middle(state)), chosen: false };
  }
  if (!(key in MOVES)) return null;
  const moved = MOVES[key](state) ?? hover;
  return { hover: moved, view: moved ? reveal(state, moved) : view, chosen: false };
}

function byCall(state, step) {
  const { hover, layout } = state;
  const lane = layout.lanes[hover?.lane ?? 0];
  const index = hover ? lane.calls.indexOf(hover.call) + step : 0;
  return markAt(state, hover?.lane ?? 0, lane.calls[index], hover?.segment);
}

function bySegment(state, step) {
  const { hover, layout, tree } = state;
  if (!hover) return byCall(state, 1);
  const context = contextOf(layout, tree.segments, hover.lane, hover.call);
  const index = context.findIndex((span) => span.segment === hover.segment) + step;
  return context[index] ? mark(context[index], hover.call) : hover;
}

function byCut(state, step) {
  const { cuts } = state.layout;
  const now = state.hover?.call ?? -1;
  const next = step > 0 ? cuts.find((cut) => cut.call > now) : cuts.findLast((cut) => cut.call < now);
  return next ? markAt(state, next.lane, next.call, undefined) : state.hover;
}

// The same segment where that call still holds it, else the last of the call's context.
function markAt(state, lane, call, segment) {
  if (call === undefined) return state.hover;
  const context = contextOf(state.layout, state.tree.segments, lane, call);
  const span = context.find((held) => held.segment === segment) ?? context[context.length - 1];
  return span ? mark(span, call) : state.hover;
}

function mark(span, call) {
  return { lane: span.lane, call, segment: span.segment, span };
}

function middle({ hover, view, layout, tree }) {
  if (!hover) return { x: (view.x0 + view.x1) / 2, y: (view.y0 + view.y1) / 2 };
  return { x: hover.call + 0.5, y: layout.lanes[hover.lane].base + tree.segments.depth[hover.segment] };
}

function reveal({ view, bounds, layout, tree }, { lane, call, segment }) {
  const depth = layout.lanes[lane].base + tree.segments.depth[segment];
  const shift = (low, high, from, to) => (from < low ? from - low : to > high ? to - high : 0);
  const dx = shift(view.x0, view.x1, call, call + 1);
  const dy = shift(view.y0, view.y1, depth, depth + Math.min(tree.segments.length[segment], view.y1 - view.y0));
  return pan(view, bounds, dx, dy);
}
