// The text of a call's context as rows of tokens, with what the change before it removed, struck
// through where it stood. Pure: positions and widths only, nothing is drawn here.

import { contextRuns, pathTo } from "./births.js";
import { lastAtMost } from "./sorted.js";
import { columns, glyphs } from "./text.js";

const MOST_UNITS = 36; // pieces of a row, so that few elements are made even of short tokens
const MOST_SHOWN = 400; // characters of one token

/** Stretches {node, length, gone} in reading order: the context of `call`, and what it lost. */
export function stretchesOf(model, call) {
  const { tree } = model;
  const own = segmentsOf(tree, tree.calls.tip[call]);
  const junction = tree.junctions.find((found) => found.call === call && found.depth >= 0);
  const before = model.previous[call];
  if (!junction || before < 0) return own.map((stretch) => ({ ...stretch, gone: false }));
  const runs = contextRuns(tree, call).filter((run) => run.position < tree.calls.prompt[call]);
  const lost = lostStretches(tree, before, junction.depth, runs);
  return woven(own, lost);
}

function segmentsOf(tree, tip) {
  return pathTo(tree, tip).map((s) => ({ node: tree.segments.start[s], length: tree.segments.length[s], at: tree.segments.depth[s] }));
}

// What of call `before` is not in `runs` any more, each with the place after which it stood.
function lostStretches(tree, before, depth, runs) {
  const { ranks } = tree;
  const starts = runs.map((run) => run.from);
  const lost = [];
  let after = depth;
  for (const { node, length, at } of segmentsOf(tree, tree.calls.tip[before])) {
    const end = node + length;
    for (let next = node + Math.max(depth - at, 0); next < end; ) {
      const run = lastAtMost(ranks.start, next);
      const stop = Math.min(ranks.start[run + 1] ?? tree.nodes, end);
      const rank = ranks.value[run] + next - ranks.start[run];
      const found = lastAtMost(starts, rank);
      const kept = found >= 0 && rank < runs[found].to ? runs[found] : null;
      const border = kept ? kept.to : (starts[found + 1] ?? Infinity);
      const size = Math.min(stop - next, border - rank);
      if (kept) after = kept.position + rank + size - kept.from;
      else lost.push({ node: next, length: size, after });
      next += size;
    }
  }
  return lost;
}

// The new context with lost stretches put in behind the place where each one stood.
function woven(own, lost) {
  const ordered = [...lost].sort((a, b) => a.after - b.after);
  const found = [];
  let next = 0;
  for (const { node, length, at } of own) {
    let done = 0;
    while (next < ordered.length && ordered[next].after < at + length) {
      const until = Math.max(ordered[next].after - at, done);
      if (until > done) found.push({ node: node + done, length: until - done, gone: false });
      done = until;
      found.push({ node: ordered[next].node, length: ordered[next].length, gone: true });
      next++;
    }
    if (done < length) found.push({ node: node + done, length: length - done, gone: false });
  }
  for (; next < ordered.length; next++) found.push({ node: ordered[next].node, length: ordered[next].length, gone: true });
  return found;
}

/** Code of the role where a message starts, 0 elsewhere: uint8 a node. */
export function messageStarts(tree) {
  const starts = new Uint8Array(tree.nodes);
  tree.roles.start.forEach((node, i) => {
    if (tree.roles.code[i] < 128) starts[node] = tree.roles.code[i];
  });
  return starts;
}

/**
 * Rows of at most `width` columns: {node, gone} a token in reading order, `first` token of each row.
 * Tokens that continue a character of the one before share its unit; `joined` marks them.
 */
export function layRows(tree, stretches, starts, width) {
  const size = stretches.reduce((sum, { length }) => sum + length, 0);
  const [node, gone, joined] = [new Uint32Array(size), new Uint8Array(size), new Uint8Array(size)];
  const first = [0];
  const { offsets, raw } = tree.bytes;
  let [at, used, units, broken] = [0, 0, 0, false];
  for (const stretch of stretches) {
    for (let i = 0; i < stretch.length; i++, at++) {
      const token = stretch.node + i;
      node[at] = token;
      gone[at] = stretch.gone ? 1 : 0;
      if (i > 0 && raw[offsets[token]] >> 6 === 2) {
        joined[at] = 1;
        continue;
      }
      const wide = Math.min(widthOf(tree, token), width);
      const fresh = broken || used + wide > width || units === MOST_UNITS || starts[token] > 0;
      if (fresh && at > 0) {
        first.push(at);
        [used, units] = [0, 0];
      }
      used += wide;
      units++;
      broken = endsLine(raw, offsets[token], offsets[token + 1]);
    }
  }
  return { node, gone, joined, first: Uint32Array.from(size ? first : []), size };
}

function endsLine(raw, from, to) {
  for (let i = from; i < to; i++) if (raw[i] === 10) return true;
  return false;
}

// Columns of a token; plain ASCII is counted, everything else is measured as it is shown.
function widthOf(tree, token) {
  const { offsets, raw } = tree.bytes;
  const [from, to] = [offsets[token], offsets[token + 1]];
  for (let i = from; i < to; i++) {
    if (raw[i] < 32 || raw[i] > 126) return columns(glyphs(tree.text(token, token + 1).slice(0, MOST_SHOWN)));
  }
  return to - from;
}

/** What is shown of the tokens [from, to) together, at most `width` columns of it. */
export function shownText(tree, laid, from, to, width) {
  const text = tree.text(laid.node[from], laid.node[to - 1] + 1);
  const shown = glyphs(text.slice(0, MOST_SHOWN));
  return shown.length > width ? `${shown.slice(0, Math.max(width - 1, 1))}…` : shown;
}

/** Row of a token. */
export function rowOf(laid, index) {
  return lastAtMost(laid.first, index);
}
