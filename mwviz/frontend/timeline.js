// The timeline of contexts as geometry: x = call, y = depth in that call's context. No drawing.

import { lastAtMost } from "./sorted.js";

const ABOVE = 1.06; // height of the picture over that of the lanes: room for what falls, and a name
const NAME = 15; // CSS pixels between two lanes: room for a name
const [ONE, MORE, MOST] = [178, 30, 360]; // CSS pixels of a picture of one lane (as in the style), for each further one, at most
const AXES = 52; // CSS pixels of it above and below the lanes
const WIDEST = 0.12; // share of all lanes that lies between two of them, at most

/** How high a picture of so many lanes is, in CSS pixels. */
export const highFor = (lanes) => Math.min(ONE + MORE * (lanes - 1), MOST);

// What lies between two lanes, as a share of all of them: room for a name where there are not too many.
function gapOf(lanes) {
  const high = (highFor(lanes) - AXES) / ABOVE;
  const left = high - NAME * (lanes - 1);
  return left > 0 ? Math.min(NAME / left, WIDEST) : WIDEST;
}

/**
 * One rectangle for each stretch of consecutive calls of a lineage that hold a segment, and one
 * cut for each call that does not extend the context before it.
 *
 * Each lineage has a lane; lanes are stacked, so that y = lane.base + depth.
 */
export function layOut(tree) {
  const lanes = tree.lineages.map((name) => ({ name, calls: [], base: 0, height: 0 }));
  tree.calls.lineage.forEach((lane, call) => lanes[lane].calls.push(call));
  const spans = [];
  const cuts = [];
  lanes.forEach((lane, index) => addLane(tree, lane, index, spans, cuts));
  const total = lanes.reduce((sum, lane) => sum + lane.height, 0);
  const gap = gapOf(lanes.length) * total;
  let base = 0;
  for (const lane of lanes) {
    lane.base = base;
    base += lane.height + gap;
  }
  const height = lanes.length ? lanes[lanes.length - 1].base + lanes[lanes.length - 1].height : 0;
  return { lanes, spans, cuts, calls: tree.calls.tip.length, height: Math.max(height, 1) };
}

// Per call, climb from the new tip to the path of the call before: only what changed is visited.
function addLane(tree, lane, index, spans, cuts) {
  const { segments, calls } = tree;
  const open = [];
  const height = new Map();
  const close = (keep, call) => {
    while (open.length > keep) {
      const { segment, from } = open.pop();
      height.delete(segment);
      spans.push({ segment, lane: index, from, to: call });
    }
  };
  let before = 0;
  for (const call of lane.calls) {
    const fresh = [];
    let segment = calls.tip[call] < 0 ? -1 : lastAtMost(segments.start, calls.tip[call]);
    const size = segment < 0 ? 0 : segments.depth[segment] + segments.length[segment];
    while (segment >= 0 && !height.has(segment)) {
      fresh.push(segment);
      segment = segments.parent[segment];
    }
    const keep = segment < 0 ? 0 : height.get(segment) + 1;
    if (keep < open.length) {
      const depth = segments.depth[open[keep].segment];
      cuts.push({ call, lane: index, depth, top: before, tail: size });
      close(keep, call);
    }
    for (const added of fresh.reverse()) {
      height.set(added, open.length);
      open.push({ segment: added, from: call });
    }
    before = size;
    lane.height = Math.max(lane.height, size);
  }
  close(0, lane.calls.length ? lane.calls[lane.calls.length - 1] + 1 : 0);
}

/** The call of `lane` whose context stands at column `x`, or -1. */
export function callAt(lane, x) {
  if (!lane.calls.length || x >= lane.calls[lane.calls.length - 1] + 1) return -1;
  const index = lastAtMost(lane.calls, Math.floor(x));
  return index < 0 ? -1 : lane.calls[index];
}

/** The span under world point (x, y), as {span, call}, or null. */
export function hit(layout, segments, x, y) {
  for (const span of layout.spans) {
    if (x < span.from || x >= span.to) continue;
    const bottom = layout.lanes[span.lane].base + segments.depth[span.segment];
    if (y >= bottom && y < bottom + segments.length[span.segment]) {
      return { span, call: callAt(layout.lanes[span.lane], x) };
    }
  }
  return null;
}

/** The spans of the context of `call`, from its first token to its last. */
export function contextOf(layout, segments, lane, call) {
  return layout.spans
    .filter((span) => span.lane === lane && span.from <= call && call < span.to)
    .sort((a, b) => segments.depth[a.segment] - segments.depth[b.segment]);
}

/** The whole layout, with room above for what falls. */
export function fit(layout) {
  return { x0: 0, x1: Math.max(layout.calls, 1), y0: 0, y1: layout.height * ABOVE };
}

/** `view` scaled about world point (x, y), kept within `bounds` and above one call, eight tokens. */
export function zoom(view, bounds, x, y, factorX, factorY) {
  const about = (low, high, at, factor, least, most) => {
    const size = Math.min(Math.max((high - low) * factor, least), most);
    const share = (at - low) / (high - low);
    return [at - share * size, at + (1 - share) * size];
  };
  const [x0, x1] = about(view.x0, view.x1, x, factorX, 1, bounds.x1 - bounds.x0);
  const [y0, y1] = about(view.y0, view.y1, y, factorY, 8, bounds.y1 - bounds.y0);
  return pan({ x0, x1, y0, y1 }, bounds, 0, 0);
}

/** `view` moved by (dx, dy) in world units, stopping at the edges of `bounds`. */
export function pan(view, bounds, dx, dy) {
  const stop = (low, high, least, most, step) => {
    const moved = Math.min(Math.max(low + step, least), Math.max(most - (high - low), least));
    return [moved, moved + (high - low)];
  };
  const [x0, x1] = stop(view.x0, view.x1, bounds.x0, bounds.x1, dx);
  const [y0, y1] = stop(view.y0, view.y1, bounds.y0, bounds.y1, dy);
  return { x0, x1, y0, y1 };
}

/** Round numbers that cut [low, high] into about `count` parts; whole numbers only. */
export function ticks(low, high, count) {
  const raw = Math.max((high - low) / Math.max(count, 1), 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) found.push(tick);
  return found;
}
