// The mask in the order of a view's rows: what the kernel gets. Queries down, keys across, rows of a
// view one after another. Pure.
//
// A query that predicts a sampled token shows, at each key that it sees, the class of that pair, and
// where its row hides a key of the true context, `erased` or `lost`; a query without a loss term
// shows what it sees as `untrained`.

import { nodeAt, pathTo } from "./births.js";
import { AGREE, ERASED, LOST, NONE, UNTRAINED, groupOf } from "./classes.js";
import { lastAtMost } from "./sorted.js";
import { grouped } from "./text.js";

const MOST_PIECES = 2e5; // stretches of all rows
const MOST_SPANS = 5e5;
const TOO_MANY = `the rows of this view have more than ${grouped(MOST_PIECES)} stretches of text, too many to draw; the time order shows the same pairs`;

/**
 * The rows of `view` as one square of `size` places: `judged` (groups of queries, as `judge` gives
 * them for targets), `targetAt(q)` (or -1), `queryOf(target)` (or -1), `rankAt(k)`,
 * `placeOf(rank, q)` (where the row of `q` has a token, if it can where `q` sees it; or -1), `starts` (where
 * stretches begin), `callAt(k)`. Throws an Error that says why it is too large.
 */
export function packedOrder(tree, view, judged) {
  const rows = view.rows ?? rowsOfTree(tree, view.name);
  const pieces = { at: [], size: [], rank: [], node: [], until: [], row: [] };
  const targetOf = new Map();
  let size = 0;
  rows.forEach(({ runs, edges }, row) => {
    addPieces(tree, pieces, runs, row, size);
    if (pieces.at.length > MOST_PIECES) throw new Error(TOO_MANY);
    const [query, target, count] = edges;
    for (let e = 0; e < target.length; e++) for (let i = 0; i < count[e]; i++) targetOf.set(size + query[e] + i, target[e] + i);
    size += runs.length.reduce((sum, length) => sum + length, 0);
  });
  const queryOf = new Map([...targetOf].map(([query, target]) => [target, query]));
  const pieceAt = (place) => lastAtMost(pieces.at, place);
  const rankAt = (place) => pieces.rank[pieceAt(place)] + place - pieces.at[pieceAt(place)];
  return {
    size,
    judged: groups(pieces, targetOf, judged),
    starts: pieces.at,
    rankAt,
    targetAt: (query) => targetOf.get(query) ?? -1,
    queryOf: (target) => queryOf.get(target) ?? -1,
    placeOf: (rank, query) => placeOf(pieces, rank, query),
    callAt: (place) => tree.segments.firstCall[lastAtMost(tree.segments.start, pieces.node[pieceAt(place)])],
  };
}

// Stretches that one run and consecutive places of the birth axis share.
function addPieces({ ranks, nodes }, pieces, { node, length, until }, row, base) {
  let at = base;
  for (let run = 0; run < node.length; run++) {
    const end = node[run] + length[run];
    for (let next = node[run]; next < end; ) {
      const r = lastAtMost(ranks.start, next);
      const stop = Math.min(ranks.start[r + 1] ?? nodes, end);
      pieces.at.push(at);
      pieces.size.push(stop - next);
      pieces.rank.push(ranks.value[r] + next - ranks.start[r]);
      pieces.node.push(next);
      pieces.until.push(base + until[run]);
      pieces.row.push(row);
      at += stop - next;
      next = stop;
    }
  }
}

function groups(pieces, targetOf, judged) {
  const out = { target: [], count: [], own: [], call: [], trained: [], first: [0], from: [], to: [], kind: [] };
  const stops = Float64Array.from(new Set(pieces.until)).sort();
  const missing = judged.target.length ? groupsMissing(judged) : [];
  let [row, active] = [{ first: 0, last: -1 }, []];
  for (let piece = 0; piece < pieces.at.length; piece++) {
    if (piece === 0 || pieces.row[piece] !== pieces.row[piece - 1]) [row, active] = [{ first: piece, last: -1 }, []];
    active.push(piece);
    for (const group of cut(pieces, piece, targetOf, judged, stops)) {
      if (joins(out, row, group, stops)) {
        out.count[out.count.length - 1] += group.count;
        continue;
      }
      active = active.filter((other) => pieces.until[other] > group.query);
      const shown = group.trained && missing[group.group] ? upTo(row.first, piece) : active;
      addGroup(out, pieces, { ...group, piece, shown }, judged);
      row.last = group.trained ? -1 : group.query;
      if (out.kind.length > MOST_SPANS) throw new Error(TOO_MANY);
    }
  }
  const columns = ["target", "count", "own", "call", "first", "from", "to"].map((name) => [name, Uint32Array.from(out[name])]);
  return { ...Object.fromEntries(columns), trained: Uint8Array.from(out.trained), kind: Uint8Array.from(out.kind) };
}

// Queries without a loss term go on from those before them, as long as nothing stops being seen.
function joins(out, row, { query, trained }, stops) {
  const last = out.target.length - 1;
  if (trained || row.last < 0 || out.target[last] + out.count[last] !== query) return false;
  return lastAtMost(stops, query) === lastAtMost(stops, row.last);
}

const upTo = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

// Which groups lack text of their true context.
function groupsMissing({ target, first, kind }) {
  return Array.from(target, (_, group) => {
    for (let span = first[group]; span < first[group + 1]; span++) if (kind[span] === ERASED || kind[span] === LOST) return true;
    return false;
  });
}

// Queries of one stretch whose targets are of one group of `judged`, each the next token there.
function* cut(pieces, piece, targetOf, judged, stops) {
  const end = pieces.at[piece] + pieces.size[piece];
  for (let query = pieces.at[piece]; query < end; ) {
    const target = targetOf.get(query) ?? -1;
    const group = target < 0 ? -1 : groupOf(judged, target);
    const trained = group >= 0 && judged.trained[group] === 1;
    const stop = Math.min(end, stops[lastAtMost(stops, query) + 1] ?? end);
    let next = query + 1;
    const rank = (at) => pieces.rank[piece] + at - pieces.at[piece];
    const follows = (at) => {
      const other = targetOf.get(at) ?? -1;
      if (!trained) return other < 0 || !judged.trained[groupOf(judged, other)];
      return other === target + at - query && other < judged.target[group] + judged.count[group] && rank(query) >= judged.own[group] && rank(at) === judged.own[group] + other - judged.target[group] - 1;
    };
    while (next < stop && follows(next)) next++;
    yield { query, count: next - query, target, group, trained };
    query = next;
  }
}

function addGroup(out, pieces, { query, count, target, group, trained, piece, shown }, judged) {
  for (const other of shown) {
    const size = other === piece ? query - pieces.at[piece] : pieces.size[other];
    if (size <= 0) continue;
    const seen = pieces.until[other] > query;
    if (!trained) {
      if (seen) addSpan(out, pieces.at[other], pieces.at[other] + size, UNTRAINED);
    } else addClasses(out, pieces, { other, size, seen, group, target }, judged);
  }
  out.target.push(query);
  out.count.push(count);
  out.own.push(query);
  out.call.push(group < 0 ? 0 : judged.call[group]);
  out.trained.push(trained ? 1 : 0);
  out.first.push(out.kind.length);
}

// One stretch of keys by the classes that the group's targets give its tokens.
function addClasses(out, pieces, { other, size, seen, group, target }, judged) {
  const base = pieces.rank[other];
  const emit = (from, to, kind) => {
    if (from < to && (seen || kind === ERASED || kind === LOST)) addSpan(out, pieces.at[other] + from - base, pieces.at[other] + to - base, kind);
  };
  const [first, last] = [judged.first[group], judged.first[group + 1]];
  const own = judged.own[group];
  const earlier = own + target - judged.target[group];
  let at = base;
  const end = base + size;
  for (let span = spanAt(judged.from, first, last, base); at < end; span++) {
    const from = span < last ? Math.max(judged.from[span], at) : end;
    rest(at, Math.min(from, end), emit, own, earlier);
    const to = span < last ? Math.min(judged.to[span], end) : end;
    if (span < last && from < to) emit(from, to, judged.kind[span]);
    at = Math.max(at, span < last ? Math.min(to, end) : end);
    if (span < last && judged.from[span] >= end) break;
  }
}

// The last of the spans [first, last) that starts at or before `key`, or the first.
function spanAt(from, first, last, key) {
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (from[middle] <= key) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, first);
}

// Keys without a span: the target's own earlier tokens, else what is only said to be seen.
function rest(from, to, emit, own, earlier) {
  emit(from, Math.min(to, own), UNTRAINED);
  emit(Math.max(from, own), Math.min(to, earlier), AGREE);
  emit(Math.max(from, own, earlier), to, UNTRAINED);
}

function addSpan(out, from, to, kind) {
  const last = out.kind.length - 1;
  if (kind === NONE) return;
  if (last >= out.first[out.first.length - 1] && out.to[last] === from && out.kind[last] === kind) out.to[last] = to;
  else {
    out.from.push(from);
    out.to.push(to);
    out.kind.push(kind);
  }
}

function placeOf(pieces, rank, query) {
  const row = query < 0 ? -1 : pieces.row[lastAtMost(pieces.at, query)];
  let found = -1;
  for (let piece = 0; piece < pieces.at.length; piece++) {
    const offset = rank - pieces.rank[piece];
    if (offset < 0 || offset >= pieces.size[piece] || (row >= 0 && pieces.row[piece] !== row)) continue;
    const at = pieces.at[piece] + offset;
    if (found < 0 || (at <= query && query < pieces.until[piece])) found = at;
  }
  return found;
}

/** The rows of a view that is exact where contexts are encoded anew: they follow from the tree. */
export function rowsOfTree(tree, name) {
  const { segments, calls, targets } = tree;
  if (name === "packed_mask") {
    const target = Array.from({ length: targets.count }, (_, i) => i);
    const query = target.map((t) => queryNode(tree, t));
    const kept = target.filter((t) => query[t] >= 0);
    const runs = { node: segments.start, length: segments.length, until: segments.exit };
    return [{ runs, edges: [kept.map((t) => query[t]), kept, kept.map(() => 1)] }];
  }
  if (name === "call_by_call") {
    return Array.from(calls.tip, (tip, call) => {
      const [first, size] = [targets.first[call], targets.first[call + 1] - targets.first[call]];
      const blind = calls.prompt[call] ? 0 : 1;
      return { runs: contextRow(tree, tip), edges: size > blind ? [[calls.prompt[call] + blind - 1], [first + blind], [size - blind]] : [[], [], []] };
    });
  }
  return name === "branch_packed" ? [joined(leafRows(tree))] : leafRows(tree);
}

// Rows one after another in one, each of which sees only itself.
function joined(rows) {
  const all = { runs: { node: [], length: [], until: [] }, edges: [[], [], []] };
  let base = 0;
  for (const { runs, edges } of rows) {
    all.runs.node.push(...runs.node);
    all.runs.length.push(...runs.length);
    all.runs.until.push(...runs.until.map((until) => base + until));
    all.edges[0].push(...edges[0].map((query) => base + query));
    all.edges[1].push(...edges[1]);
    all.edges[2].push(...edges[2]);
    base += runs.length.reduce((sum, size) => sum + size, 0);
  }
  return all;
}

function contextRow(tree, tip) {
  const path = pathTo(tree, tip);
  const length = path.map((s) => tree.segments.length[s]);
  const total = length.reduce((sum, size) => sum + size, 0);
  return { node: path.map((s) => tree.segments.start[s]), length, until: length.map(() => total) };
}

// One row a branch; each target is trained on the first that holds it.
function leafRows(tree) {
  const { segments, targets } = tree;
  const parents = new Set(segments.parent);
  const ends = [...segments.start.keys()].filter((s) => !parents.has(s)).map((s) => segments.start[s] + segments.length[s] - 1);
  const rows = ends.map((end) => ({ runs: contextRow(tree, end), edges: [[], [], []] }));
  for (let target = 0; target < targets.count; target++) {
    const call = lastAtMost(targets.first, target);
    const depth = tree.calls.prompt[call] + target - targets.first[call];
    if (!depth) continue;
    const row = rows[lastAtMost(ends, nodeAt(tree, tree.calls.tip[call], depth) - 1) + 1];
    row.edges[0].push(depth - 1);
    row.edges[1].push(target);
    row.edges[2].push(1);
  }
  return rows;
}

function queryNode(tree, target) {
  const call = lastAtMost(tree.targets.first, target);
  const depth = tree.calls.prompt[call] + target - tree.targets.first[call];
  return depth ? nodeAt(tree, tree.calls.tip[call], depth - 1) : -1;
}
