// What a call's context holds, in reading order, with what has left it struck through where it
// stood. Pure: stretches of nodes only.

import { contextRuns, pathTo } from "./births.js";
import { lastAtMost } from "./sorted.js";

/** How much of what has left is shown: what the last change took, all that ever left, nothing. */
export const KEPT = ["last", "all", "none"];

/**
 * Stretches {node, length, gone, added} in reading order: the context of `call` and what it lost.
 * `gone`: the call that no longer had the stretch, -1 for what is there. `added`: not in `against`.
 *
 * `mode` is one of `KEPT`; with a call `against`, what that one had and this one lacks is shown
 * instead.
 */
export function stretchesOf(model, call, { mode = "last", against = null } = {}) {
  const { tree } = model;
  const own = segmentsOf(tree, call);
  if (against !== null) return difference(tree, own, call, against);
  return woven(own, lostBefore(model, call, mode)).map((stretch) => ({ ...stretch, added: false }));
}

function segmentsOf(tree, call) {
  const { start, length, depth } = tree.segments;
  return pathTo(tree, tree.calls.tip[call]).map((s) => ({ node: start[s], length: length[s], at: depth[s], gone: -1 }));
}

// What of the earlier contexts of its lineage a call no longer has.
function lostBefore(model, call, mode) {
  const { tree, previous } = model;
  const broken = new Set(tree.junctions.filter(({ depth }) => depth >= 0).map((junction) => junction.call));
  if (mode === "none") return [];
  if (mode === "last") return broken.has(call) && previous[call] >= 0 ? lost(tree, segmentsOf(tree, previous[call]), call, promptOf(tree, call)) : [];
  const changes = [];
  for (let at = call; at >= 0; at = previous[at]) if (broken.has(at) && previous[at] >= 0) changes.unshift(at);
  return changes.reduce((gone, at) => lost(tree, woven(segmentsOf(tree, previous[at]), gone), at, promptOf(tree, at)), []);
}

const listed = (runs) => ({ runs, starts: runs.map((run) => run.from) });

const promptOf = (tree, call) => listed(contextRuns(tree, call).filter((run) => run.position < tree.calls.prompt[call]));

// What of the stretches `before` call `at` the `held` tokens lack, each with the place after which it stood.
function lost(tree, before, at, held) {
  const found = [];
  let after = 0;
  for (const { node, length, gone } of before) {
    for (const piece of pieces(tree, node, length, held)) {
      if (!piece.kept) found.push({ node: piece.node, length: piece.size, gone: gone < 0 ? at : gone, after });
      else if (gone < 0) after = piece.kept.position + piece.rank + piece.size - piece.kept.from;
    }
  }
  return found;
}

// A stretch of nodes cut where the tokens held (runs on the birth axis) begin and end.
function* pieces({ ranks, nodes }, node, length, { runs, starts }) {
  const end = node + length;
  for (let next = node; next < end; ) {
    const run = lastAtMost(ranks.start, next);
    const stop = Math.min(ranks.start[run + 1] ?? nodes, end);
    const rank = ranks.value[run] + next - ranks.start[run];
    const found = lastAtMost(starts, rank);
    const kept = found >= 0 && rank < runs[found].to ? runs[found] : null;
    const border = kept ? kept.to : (starts[found + 1] ?? Infinity);
    const size = Math.min(stop - next, border - rank);
    yield { node: next, size, rank, kept };
    next += size;
  }
}

// The new context with lost stretches put in behind the place where each one stood.
function woven(own, gone) {
  const ordered = [...gone].sort((a, b) => a.after - b.after);
  const found = [];
  let next = 0;
  const put = () => found.push({ node: ordered[next].node, length: ordered[next].length, gone: ordered[next++].gone });
  for (const { node, length, at } of own) {
    let done = 0;
    while (next < ordered.length && ordered[next].after < at + length) {
      const until = Math.max(ordered[next].after - at, done);
      if (until > done) found.push({ node: node + done, length: until - done, gone: -1 });
      done = until;
      put();
    }
    if (done < length) found.push({ node: node + done, length: length - done, gone: -1 });
  }
  while (next < ordered.length) put();
  return found;
}

// The context of `call` beside that of call `against`: what is only here, and what was only there.
function difference(tree, own, call, against) {
  const there = listed(contextRuns(tree, against));
  const only = lost(tree, segmentsOf(tree, against), call, listed(contextRuns(tree, call)));
  const found = [];
  for (const stretch of woven(own, only)) {
    if (stretch.gone >= 0) found.push({ ...stretch, added: false });
    else for (const { node, size, kept } of pieces(tree, stretch.node, stretch.length, there)) found.push({ node, length: size, gone: -1, added: !kept });
  }
  return found;
}
