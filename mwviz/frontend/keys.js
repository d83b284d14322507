// What each key does: pure functions from (key, state) to what changes.

import { contextOf, pan, zoom } from "./timeline.js";

const STEP = 0.18; // share of the view that a pan key moves
const CLOSER = 0.75;

const MOVES = {
  ArrowRight: (state) => byCall(state, 1),
  ArrowLeft: (state) => byCall(state, -1),
  ArrowUp: (state) => bySegment(state, 1),
  ArrowDown: (state) => bySegment(state, -1),
};
const JUMPS = {
  j: (state) => byCall(state, 1),
  k: (state) => byCall(state, -1),
  n: (state) => byCut(state, 1),
  N: (state) => byCut(state, -1),
};

const VIEWS = {
  "Shift+ArrowLeft": (view, bounds) => pan(view, bounds, -STEP * (view.x1 - view.x0), 0),
  "Shift+ArrowRight": (view, bounds) => pan(view, bounds, STEP * (view.x1 - view.x0), 0),
  "Shift+ArrowUp": (view, bounds) => pan(view, bounds, 0, STEP * (view.y1 - view.y0)),
  "Shift+ArrowDown": (view, bounds) => pan(view, bounds, 0, -STEP * (view.y1 - view.y0)),
  "+": (view, bounds, at) => zoom(view, bounds, at.x, at.y, CLOSER, CLOSER),
  "-": (view, bounds, at) => zoom(view, bounds, at.x, at.y, 1 / CLOSER, 1 / CLOSER),
  0: (_, bounds) => bounds,
};
VIEWS["="] = VIEWS["+"];
for (const [letter, arrow] of [["w", "Up"], ["a", "Left"], ["s", "Down"]]) VIEWS[letter] = VIEWS[`Shift+Arrow${arrow}`];

/** {hover, view, chosen}, or null if the key is not one of the timeline's. */
export function act(key, state) {
  const { hover, view, bounds } = state;
  if (key === "Enter") return hover && { hover, view, chosen: true };
  if (key === "Escape") return hover && { hover: null, view, chosen: false };
  if (key in VIEWS) {
    return { hover, view: VIEWS[key](view, bounds, middle(state)), chosen: false };
  }
  const move = MOVES[key] ?? JUMPS[key];
  if (!move) return null;
  const moved = move(state) ?? hover;
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

/** Where j, k, n and N lead from a mark, whichever pane is in use; null if the key is another. */
export function jump(key, state) {
  return key in JUMPS ? (JUMPS[key](state) ?? state.hover) : null;
}

/** The target that d, D (by drift, largest first) or l, L (wrong text, in order) lead to, or null. */
export function seek(key, { metric, leaks }, at) {
  const step = key === "d" || key === "l" ? 1 : -1;
  if (key === "d" || key === "D") {
    const rank = at === null ? -1 : metric.worst.indexOf(at);
    return metric.worst[rank < 0 ? 0 : Math.min(Math.max(rank + step, 0), metric.worst.length - 1)] ?? null;
  }
  if (key !== "l" && key !== "L") return null;
  const { byTarget } = leaks;
  const wrong = (t) => byTarget[t] > 0 && byTarget[t] !== byTarget[t - 1];
  for (let t = (at ?? -1) + step; t >= 0 && t < byTarget.length; t += step) if (wrong(t)) return t;
  return null;
}

/** Every key and what it does, for the help. */
export const HELP = [
  ["/", "find text, evicted text too"],
  ["g", "go to a call, a token, a part of the mask"],
  ["j k", "next, previous call"],
  ["n N", "next, previous change of context"],
  ["d D", "largest drift, then the next largest; back"],
  ["l L", "next, previous token that sees wrong text"],
  ["arrows", "move in the pane that has the focus"],
  ["+ - 0", "zoom in, out, everything"],
  ["w a s", "move what is in sight; so do Shift+arrows"],
  ["1 2 3", "contexts, tree in lanes, tree as nodes"],
  ["z", "mask: one pixel a token"],
  ["o", "mask: difference, this view, what the agent saw"],
  ["x", "mask: time order, packed order"],
  ["m", "next training view"],
  ["p", "pin this call; others show what differs from it"],
  ["f", "full screen of the pane that has the focus"],
  ["t", "the pane that has the focus as a table; of a tree an indented one"],
  ["e", "explain the numbers"],
  ["y", "copy a link"],
  ["Enter", "select"],
  ["Esc", "one level up"],
];
