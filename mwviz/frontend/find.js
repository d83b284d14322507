// Finds text in everything that a rollout ever held, what has left included. Pure.

import { contextRuns, nodeAt, rankOf } from "./births.js";
import { lastAtMost } from "./sorted.js";

export const MOST = 10_000; // matches that are told apart

const FOLDED = Uint8Array.from({ length: 256 }, (_, byte) => (byte > 64 && byte < 91 ? byte + 32 : byte));

/**
 * Every place of `query` in any context, ASCII letters of either case alike: {matches, more}. A match
 * is text, however often contexts repeat it: `ranks` of its tokens on the birth axis, the nodes
 * `places` at which it ends, in order of birth. `more`: there are others beyond the first `MOST`.
 */
export function find(tree, query) {
  const found = new Map();
  for (const wanted of variants(query)) {
    for (const { node, end } of placesOf(tree, wanted)) {
      const ranks = ranksOf(tree, node, end);
      const name = ranks.join();
      const match = found.get(name);
      if (match) match.places.push(end);
      else found.set(name, { ranks, places: [end] });
      if (found.size > MOST) break;
    }
  }
  const matches = [...found.values()].sort((a, b) => a.ranks[0] - b.ranks[0]);
  return { matches: matches.slice(0, MOST), more: matches.length > MOST };
}

/** Which of `matches` are in no lineage's last context any more: a flag for each. */
export function gone(tree, matches) {
  const last = new Map([...tree.calls.lineage].map((lineage, call) => [lineage, call]));
  const contexts = [...last.values()].map((call) => contextRuns(tree, call)).map((runs) => ({ runs, starts: runs.map(({ from }) => from) }));
  const held = (rank) => contexts.some(({ runs, starts }) => rank < (runs[lastAtMost(starts, rank)]?.to ?? 0));
  return matches.map(({ ranks }) => !ranks.every(held));
}

/** The match that follows place `rank` (or comes before it, for a `step` of -1), round the ends. */
export function nextMatch(matches, rank, step) {
  if (!matches.length) return -1;
  const starts = matches.map(({ ranks }) => ranks[0]);
  const at = step > 0 ? lastAtMost(starts, rank) + 1 : lastAtMost(starts, rank - 1);
  return (at + matches.length) % matches.length;
}

// The bytes to look for: other letters than ASCII as typed, as small and as capital letters.
function variants(query) {
  if (!query) return [];
  const spelt = new Set([query, query.toLowerCase(), query.toUpperCase()]);
  const coded = [...spelt].map((text) => Array.from(new TextEncoder().encode(text), (byte) => FOLDED[byte]));
  return [...new Map(coded.map((bytes) => [bytes.join(), Uint8Array.from(bytes)])).values()];
}

// Where `wanted` stands in the text of each segment, and over the border to what stands before it.
function* placesOf(tree, wanted) {
  const { segments } = tree;
  const { offsets, raw } = tree.bytes;
  const token = (byte) => lastAtMost(offsets, byte);
  for (let s = 0; s < segments.start.length; s++) {
    const from = offsets[segments.start[s]];
    const to = offsets[segments.start[s] + segments.length[s]];
    yield* overBorder(tree, s, wanted);
    for (const at of positions(raw, from, to, wanted)) yield { node: token(at), end: token(at + wanted.length - 1) };
  }
}

function* overBorder(tree, segment, wanted) {
  const { segments, bytes } = tree;
  const room = wanted.length - 1;
  if (!room || segments.parent[segment] < 0) return;
  const [before, nodes] = [[], []];
  for (let s = segments.parent[segment]; s >= 0 && before.length < room; s = segments.parent[s]) {
    for (let node = segments.start[s] + segments.length[s] - 1; node >= segments.start[s] && before.length < room; node--) {
      for (let at = bytes.offsets[node + 1] - 1; at >= bytes.offsets[node] && before.length < room; at--) {
        before.push(bytes.raw[at]);
        nodes.push(node);
      }
    }
  }
  const from = bytes.offsets[segments.start[segment]];
  const to = Math.min(from + room, bytes.offsets[segments.start[segment] + segments.length[segment]]);
  const joined = Uint8Array.of(...before.reverse(), ...bytes.raw.subarray(from, to));
  nodes.reverse();
  for (const at of positions(joined, 0, joined.length, wanted)) {
    const end = at + wanted.length - 1;
    if (at < before.length && end >= before.length) yield { node: nodes[at], end: lastAtMost(bytes.offsets, from + end - before.length) };
  }
}

// Horspool's search over folded bytes.
function* positions(raw, from, to, wanted) {
  const last = wanted.length - 1;
  const skip = new Uint32Array(256).fill(wanted.length);
  for (let i = 0; i < last; i++) skip[wanted[i]] = last - i;
  for (let at = from; at + last < to; at += skip[FOLDED[raw[at + last]]]) {
    let i = last;
    while (i >= 0 && FOLDED[raw[at + i]] === wanted[i]) i--;
    if (i < 0) yield at;
  }
}

// Places on the birth axis of the tokens from `node` to `end`, which lies below it.
function ranksOf(tree, node, end) {
  const { segments } = tree;
  const depth = (at) => {
    const s = lastAtMost(segments.start, at);
    return segments.depth[s] + at - segments.start[s];
  };
  const [from, to] = [depth(node), depth(end)];
  return Array.from({ length: to - from + 1 }, (_, i) => rankOf(tree, nodeAt(tree, end, from + i)));
}
