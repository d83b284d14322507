// The birth axis (distinct tokens in order of appearance): where contexts, rows and lineages stand
// on it, as runs of consecutive tokens. Nothing here grows with the number of tokens.

import { lastAtMost } from "./sorted.js";

/** Place of a node's origin on the birth axis. */
export function rankOf({ ranks }, node) {
  const run = lastAtMost(ranks.start, node);
  return ranks.value[run] + node - ranks.start[run];
}

/** How many distinct tokens there are. */
export function distinct({ ranks, nodes }) {
  let most = 0;
  for (let run = 0; run < ranks.start.length; run++) {
    const end = run + 1 < ranks.start.length ? ranks.start[run + 1] : nodes;
    most = Math.max(most, ranks.value[run] + end - ranks.start[run]);
  }
  return most;
}

/**
 * Where distinct tokens were born: ascending `rank`, the `node` of each stretch, its `end` on the
 * axis. Tokens are born call by call, and in a call by depth.
 */
function births({ nodes, segments, ranks }) {
  const pieces = [];
  for (let s = 0, run = 0; s < segments.start.length; s++) {
    const end = segments.start[s] + segments.length[s];
    for (let at = segments.start[s]; at < end; ) {
      while (run + 1 < ranks.start.length && ranks.start[run + 1] <= at) run++;
      const stop = Math.min(ranks.start[run + 1] ?? nodes, end);
      pieces.push({ call: segments.firstCall[s], depth: segments.depth[s] + at - segments.start[s], node: at, size: stop - at, value: ranks.value[run] + at - ranks.start[run] });
      at = stop;
    }
  }
  pieces.sort((a, b) => a.call - b.call || a.depth - b.depth);
  const [rank, node] = [[], []];
  let next = 0;
  for (const piece of pieces) {
    if (piece.value + piece.size <= next) continue;
    rank.push(next);
    node.push(piece.node + next - piece.value);
    next = piece.value + piece.size;
  }
  return { rank, node, end: next };
}

/** Node at which each distinct token was born: a function of its place on the axis. */
export function birthNodes(tree) {
  const { rank, node } = births(tree);
  return (place) => {
    const i = lastAtMost(rank, place);
    return node[i] + place - rank[i];
  };
}

/**
 * Runs of nodes of one kind: `start` and `kind`. `born` says from which place of the birth axis on
 * tokens were given (0) or sampled (1); a node that is not the first of its token is a copy (+ 2).
 */
export function nodeKinds(tree, born) {
  const { ranks, nodes } = tree;
  const { rank, node } = births(tree);
  const [start, kind] = [[], []];
  const mark = (at, value) => {
    if (kind[kind.length - 1] === value) return;
    start.push(at);
    kind.push(value);
  };
  for (let run = 0; run < ranks.start.length; run++) {
    const end = ranks.start[run + 1] ?? nodes;
    for (let at = ranks.start[run]; at < end; ) {
      const place = ranks.value[run] + at - ranks.start[run];
      const [b, k] = [lastAtMost(rank, place), lastAtMost(born.start, place)];
      mark(at, born.kind[k] + (node[b] + place - rank[b] === at ? 0 : 2));
      at = Math.min(end, at + Math.min(rank[b + 1] ?? Infinity, born.start[k + 1] ?? Infinity) - place);
    }
  }
  return { start: Uint32Array.from(start), kind: Uint8Array.from(kind) };
}

/** Segments from the root to `tip`. */
export function pathTo({ segments }, tip) {
  const path = [];
  for (let s = tip < 0 ? -1 : lastAtMost(segments.start, tip); s >= 0; s = segments.parent[s]) path.push(s);
  return path.reverse();
}

/** The call before each one in its lineage, -1 for a lineage's first. */
export function previousCalls({ calls }) {
  const last = new Map();
  return Int32Array.from(calls.lineage, (lineage, call) => {
    const before = last.get(lineage) ?? -1;
    last.set(lineage, call);
    return before;
  });
}

/** Per call the smallest branch depth of its lineage's later junctions: what lies deeper leaves. */
export function keptByLater(tree) {
  const own = new Map(tree.junctions.filter(({ depth }) => depth >= 0).map(({ call, depth }) => [call, depth]));
  const before = previousCalls(tree);
  const kept = new Float64Array(before.length).fill(Infinity);
  for (let call = kept.length - 1; call >= 0; call--) {
    if (before[call] >= 0) kept[before[call]] = Math.min(kept[call], own.get(call) ?? Infinity);
  }
  return kept;
}

/**
 * Stretches of nodes, shown one after another, as runs on the birth axis in its order:
 * {from, to} there, `before` (tokens shown before it), `position` id, `until` (last query + 1).
 */
export function runsOf(tree, { node, length, position, until }) {
  const { ranks } = tree;
  const found = [];
  let shown = 0;
  for (let i = 0; i < node.length; i++) {
    const end = node[i] + length[i];
    for (let at = node[i], run = lastAtMost(ranks.start, at); at < end; run++) {
      const stop = Math.min(run + 1 < ranks.start.length ? ranks.start[run + 1] : tree.nodes, end);
      const from = ranks.value[run] + at - ranks.start[run];
      const within = at - node[i];
      add(found, from, stop - at, shown + within, position[i] + within, until ? until[i] : Infinity);
      at = stop;
    }
    shown += length[i];
  }
  return apart(found.sort((a, b) => a.from - b.from || b.before - a.before));
}

function add(runs, from, size, before, position, until) {
  const last = runs[runs.length - 1];
  const joins =
    last && last.to === from && last.until === until &&
    last.before + last.to - last.from === before && last.position + last.to - last.from === position;
  if (joins) last.to += size;
  else runs.push({ from, to: from + size, before, position, until });
}

// A token shown twice counts where it stands first in `runs`.
function apart(runs) {
  const kept = [];
  let end = 0;
  for (const run of runs) {
    const skip = Math.max(end - run.from, 0);
    if (run.from + skip >= run.to) continue;
    kept.push({ ...run, from: run.from + skip, before: run.before + skip, position: run.position + skip });
    end = run.to;
  }
  return kept;
}

/** A call's context as runs on the birth axis; `before` and `position` are both the depth. */
export function contextRuns(tree, call) {
  const { start, length, depth } = tree.segments;
  const path = pathTo(tree, tree.calls.tip[call]);
  const pick = (array) => path.map((segment) => array[segment]);
  return runsOf(tree, { node: pick(start), length: pick(length), position: pick(depth) });
}

/**
 * Where each cache holds what it ever held: per cache ascending, disjoint runs of the birth axis with
 * the `place` of their first token. Null where there is one: its places are the axis.
 */
export function cachePlaces(tree) {
  const caches = 1 + Math.max(0, ...tree.calls.cache);
  if (!tree.cache || caches < 2) return null;
  const found = Array.from({ length: caches }, () => ({ held: [], next: 0 }));
  tree.calls.cache.forEach((cache, call) => {
    const own = found[cache];
    for (const run of contextRuns(tree, call).sort((a, b) => a.position - b.position)) {
      for (const { from, to } of split(run, own.held).filter(({ place }) => place === undefined)) {
        own.held.splice(own.held.findLastIndex((held) => held.from < from) + 1, 0, { from, to, place: own.next });
        own.next += to - from;
      }
    }
  });
  return found.map(({ held }) => held);
}

/** Runs of a context with the `place` of each in its cache, cut where places part. */
export function placed(runs, held) {
  return held ? runs.flatMap((run) => split(run, held)) : runs.map((run) => ({ ...run, place: run.from }));
}

// A run cut where `held` starts and ends; `place` is undefined for what is not held.
function split(run, held) {
  const found = [];
  for (let at = run.from, i = held.findIndex(({ to }) => to > at); at < run.to; ) {
    const next = held[i] ?? { from: Infinity };
    const inside = next.from <= at;
    const to = Math.min(run.to, inside ? next.to : next.from);
    const skip = at - run.from;
    const place = inside ? next.place + at - next.from : undefined;
    found.push({ ...run, from: at, to, before: run.before + skip, position: run.position + skip, place });
    if (inside && to === next.to) i++;
    at = to;
  }
  return found;
}

/**
 * Since which call each lineage has met each token: per lineage ascending `at` (places where the
 * answer changes) and `call` (Infinity: never). Null where there is one lineage: it met all.
 */
export function firstMet(tree) {
  if (tree.lineages.length < 2) return null;
  const found = tree.lineages.map(() => ({ seen: new Set(), met: [] }));
  tree.calls.tip.forEach((tip, call) => {
    const { seen, met } = found[tree.calls.lineage[call]];
    const fresh = [];
    for (let s = tip < 0 ? -1 : lastAtMost(tree.segments.start, tip); s >= 0 && !seen.has(s); s = tree.segments.parent[s]) {
      seen.add(s);
      fresh.push(s);
    }
    const { start, length, depth } = tree.segments;
    const pick = (array) => fresh.map((segment) => array[segment]);
    const runs = runsOf(tree, { node: pick(start), length: pick(length), position: pick(depth) });
    for (const { from, to } of runs) met.push({ from, to, call });
  });
  return found.map(({ met }) => earliest(met));
}

// Intervals in order of call, to a step function: the first call that covers a place.
function earliest(met) {
  const at = [...new Set([0, ...met.flatMap(({ from, to }) => [from, to])])].sort((a, b) => a - b);
  const call = new Float64Array(at.length).fill(Infinity);
  for (const interval of met) {
    for (let i = lastAtMost(at, interval.from); at[i] < interval.to; i++) call[i] = Math.min(call[i], interval.call);
  }
  return { at, call };
}

/** The node at `depth` of the context that ends at `tip`, or -1. */
export function nodeAt({ segments }, tip, depth) {
  let s = tip < 0 ? -1 : lastAtMost(segments.start, tip);
  if (s < 0 || depth > segments.depth[s] + tip - segments.start[s]) return -1;
  while (segments.depth[s] > depth) s = segments.parent[s];
  return segments.start[s] + depth - segments.depth[s];
}
