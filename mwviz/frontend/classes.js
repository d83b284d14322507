// Who sees what: the class of every key for every target of a view, in groups of targets that see
// the same. Rules: mwviz/pairs.py, `_Judge.classify`; reference at token level: mwviz/windows.py.

import { cachePlaces, contextRuns, firstMet, keptByLater, placed, runsOf } from "./births.js";
import { lastAtMost } from "./sorted.js";

export const NAMES = ["agree", "future", "erased", "stale", "foreign", "lost", "none", "shifted", "self", "untrained"];
export const [AGREE, FUTURE, ERASED, STALE, FOREIGN, LOST, NONE, SHIFTED, SELF, UNTRAINED] = NAMES.keys();
/** Classes in which view and truth differ: what a leak count counts. */
export const WRONG = [FUTURE, ERASED, STALE, FOREIGN, LOST];
/** Classes that differ from what was sampled, and the words for them. */
export const COUNTED = [...WRONG, SHIFTED];

/**
 * All targets of `view` in groups. Group g holds `count[g]` consecutive targets from `target[g]`,
 * whose own tokens stand at `own[g]` and on; each sees own earlier ones as `agree`. Other keys are
 * the spans `first[g] .. first[g + 1]`: places `from .. to` of one `kind`. Keys that neither truth
 * nor view shows have no span. Targets the view does not train have `trained[g]` = 0 and their true
 * context as `untrained`.
 */
export function judge(tree, view) {
  const out = { target: [], count: [], own: [], call: [], trained: [], first: [0], from: [], to: [], kind: [] };
  const kept = keptByLater(tree);
  const met = firstMet(tree);
  const places = cachePlaces(tree);
  const rows = (view.rows ?? []).map((row) => runsOf(tree, row.runs));
  const untils = (view.rows ?? []).map((row) => [...new Set(row.runs.until)].sort((a, b) => a - b));
  const work = view.rows ? edgesByCall(tree, view.rows) : null;
  for (let call = 0; call < tree.calls.tip.length; call++) {
    const truth = placed(contextRuns(tree, call), places?.[tree.calls.cache[call]]);
    const own = ownRuns(tree, call, truth);
    const scene = { call, truth, kept: kept[call], met: met?.[tree.calls.lineage[call]], cache: tree.cache };
    for (const edge of edgesOf(tree, call, work)) {
      for (const group of cutGroups(edge, own, untils)) addGroup(out, tree, scene, group, rows);
    }
  }
  return {
    ...Object.fromEntries(["target", "count", "own", "call", "first", "from", "to"].map((n) => [n, Uint32Array.from(out[n])])),
    trained: Uint8Array.from(out.trained),
    kind: Uint8Array.from(out.kind),
  };
}

/** The group of a target. */
export function groupOf(judged, target) {
  return lastAtMost(judged.target, target);
}

/** Class of one key for one target. */
export function classAt(judged, target, key) {
  const group = groupOf(judged, target);
  if (group < 0) return NONE;
  const at = judged.own[group] + target - judged.target[group];
  if (key >= judged.own[group] && key < judged.own[group] + judged.count[group]) {
    if (key > at) return NONE;
    if (key === at) return judged.trained[group] ? SELF : NONE;
    return judged.trained[group] ? AGREE : UNTRAINED;
  }
  const spans = judged.from.subarray(judged.first[group], judged.first[group + 1]);
  const span = lastAtMost(spans, key);
  return span >= 0 && key < judged.to[judged.first[group] + span] ? judged.kind[judged.first[group] + span] : NONE;
}

/** Wrong keys of every target, and wrong targets of every key (uint32 each). */
export function leakCounts(judged, targets, keys) {
  const byTarget = new Uint32Array(targets);
  const steps = new Float64Array(keys + 1);
  for (let group = 0; group < judged.target.length; group++) {
    let wrong = 0;
    for (let span = judged.first[group]; span < judged.first[group + 1]; span++) {
      if (!WRONG.includes(judged.kind[span])) continue;
      wrong += judged.to[span] - judged.from[span];
      steps[judged.from[span]] += judged.count[group];
      steps[judged.to[span]] -= judged.count[group];
    }
    byTarget.fill(wrong, judged.target[group], judged.target[group] + judged.count[group]);
  }
  const byKey = new Uint32Array(keys);
  let mostByKey = 1;
  for (let key = 0, sum = 0; key < keys; key++) {
    byKey[key] = sum += steps[key];
    mostByKey = Math.max(mostByKey, sum);
  }
  return { byTarget, byKey, mostByKey };
}

/** Pairs of each class (by its index) that each call's trained targets have: exact integers. */
export function pairsByCall(judged, calls) {
  const counts = Array.from({ length: calls }, () => new Float64Array(NAMES.length));
  for (let group = 0; group < judged.target.length; group++) {
    if (!judged.trained[group]) continue;
    const own = counts[judged.call[group]];
    const size = judged.count[group];
    for (let span = judged.first[group]; span < judged.first[group + 1]; span++) {
      own[judged.kind[span]] += (judged.to[span] - judged.from[span]) * size;
    }
    own[AGREE] += (size * (size - 1)) / 2;
  }
  return counts;
}

function edgesByCall(tree, rows) {
  const work = new Map();
  rows.forEach((row, index) => {
    const [query, target, count] = row.edges;
    for (let e = 0; e < target.length; e++) {
      let done = 0;
      while (done < count[e]) {
        const call = lastAtMost(tree.targets.first, target[e] + done);
        const size = Math.min(count[e] - done, tree.targets.first[call + 1] - target[e] - done);
        if (!work.has(call)) work.set(call, []);
        work.get(call).push({ row: index, query: query[e] + done, target: target[e] + done, count: size });
        done += size;
      }
    }
  });
  return work;
}

// The edges that train a call's targets, in order, and what lies between them as untrained.
function edgesOf(tree, call, work) {
  const start = tree.targets.first[call];
  const end = tree.targets.first[call + 1];
  if (!work) {
    const blind = tree.calls.prompt[call] === 0 && end > start ? 1 : 0;
    const edges = [{ row: -1, query: 0, target: start + blind, count: end - start - blind }];
    return blind ? [{ target: start, count: 1 }, ...edges] : edges;
  }
  // A target that several rows train is shown as the last of them trains it.
  const edges = work.get(call) ?? [];
  const by = new Int32Array(end - start).fill(-1);
  edges.forEach(({ target, count }, i) => by.fill(i, target - start, target - start + count));
  const found = [];
  for (let at = 0, next = 0; at < by.length; at = next) {
    while (next < by.length && by[next] === by[at]) next++;
    const edge = edges[by[at]];
    const part = { target: start + at, count: next - at };
    found.push(edge ? { ...part, row: edge.row, query: edge.query + start + at - edge.target } : part);
  }
  return found;
}

// Where a call's targets stand on the birth axis: runs of targets with consecutive places. `place`:
// where a cache expects the first of them, which is behind the token that predicts it; `held`: where
// it holds that one.
function ownRuns(tree, call, truth) {
  const prompt = tree.calls.prompt[call];
  const first = tree.targets.first[call];
  const ends = new Map(truth.map((run) => [run.position + run.to - run.from, run.place + run.to - run.from]));
  return truth
    .filter((run) => run.position + run.to - run.from > prompt)
    .map((run) => {
      const skip = Math.max(prompt - run.position, 0);
      const target = first + run.position + skip - prompt;
      const held = run.place + skip;
      const place = (!skip && tree.cache && ends.get(run.position)) || held;
      return { target, rank: run.from + skip, count: run.to - run.from - skip, place, held };
    })
    .sort((a, b) => a.target - b.target);
}

function* cutGroups(edge, own, untils) {
  const stops = edge.row >= 0 ? untils[edge.row].map((until) => edge.target + until - edge.query) : [];
  for (const run of own) {
    const start = Math.max(edge.target, run.target);
    const end = Math.min(edge.target + edge.count, run.target + run.count);
    if (start >= end) continue;
    const apart = run.place === run.held || start > run.target ? [] : [start + 1];
    const inner = [...new Set([...apart, ...stops])].filter((stop) => stop > start && stop < end).sort((a, b) => a - b);
    const cuts = [start, ...inner, end];
    for (let i = 0; i + 1 < cuts.length; i++) {
      yield {
        row: edge.row,
        trained: edge.row !== undefined,
        target: cuts[i],
        count: cuts[i + 1] - cuts[i],
        query: edge.query + cuts[i] - edge.target,
        own: run.rank + cuts[i] - run.target,
        place: cuts[i] === run.target ? run.place : run.held + cuts[i] - run.target,
      };
    }
  }
}

function addGroup(out, tree, scene, group, rows) {
  const truePosition = tree.calls.prompt[scene.call] + group.target - tree.targets.first[scene.call];
  const truth = clipTruth(scene, truePosition);
  const emit = (from, to, kind) => addSpan(out, from, to, kind);
  if (!group.trained || (group.row < 0 && !scene.cache)) {
    for (const run of truth) emit(run.from, run.to, group.trained ? AGREE : UNTRAINED);
  } else {
    const { seen, position } = group.row < 0 ? clipContext(scene, truePosition) : clipRow(rows[group.row], group);
    sweep(truth, seen, emit, { ...scene, group, shift: position - (scene.cache ? group.place : truePosition) });
  }
  out.target.push(group.target);
  out.count.push(group.count);
  out.own.push(group.own);
  out.call.push(scene.call);
  out.trained.push(group.trained ? 1 : 0);
  out.first.push(out.kind.length);
}

// Keys before the targets in their true context, cut where a later junction removes the rest. Where
// a cache kept entries, each one's true position is its place there.
function clipTruth({ truth, kept, cache }, limit) {
  const found = [];
  for (const run of truth) {
    const end = Math.min(run.position + run.to - run.from, limit);
    const shift = cache ? run.place - run.position : 0;
    for (const [low, high, gone] of [[run.position, Math.min(end, kept), false], [Math.max(run.position, kept), end, true]]) {
      const from = run.from + low - run.position;
      if (low < high) found.push({ from, to: from + high - low, position: low + shift, gone });
    }
  }
  return found;
}

// A context encoded anew, as the view that shows it: keys at the positions they were sent at.
function clipContext({ truth }, limit) {
  const seen = truth
    .filter((run) => run.position < limit)
    .map(({ from, to, position }) => ({ from, to: Math.min(to, from + limit - position), position }));
  return { seen, position: limit };
}

// Keys that the group's queries see in their row, and the position id at which its targets stand.
function clipRow(runs, group) {
  const seen = [];
  let position = 0;
  for (const run of runs) {
    const at = group.query - run.before;
    if (at >= 0 && at < run.to - run.from && run.until > group.query) position = run.position + at + 1;
    const size = Math.min(run.to - run.from, at + 1);
    if (size > 0 && run.until >= group.query + group.count) seen.push({ from: run.from, to: run.from + size, position: run.position });
  }
  return { seen, position };
}

// Merges two ascending lists of runs into spans of one class each.
function sweep(truth, seen, emit, scene) {
  const edges = new Set([scene.group.own, scene.group.own + scene.group.count]);
  for (const { from, to } of truth) edges.add(from).add(to);
  for (const { from, to } of seen) edges.add(from).add(to);
  const cuts = Float64Array.from(edges).sort();
  let [t, v] = [0, 0];
  for (let i = 0; i + 1 < cuts.length; i++) {
    const from = cuts[i];
    while (t < truth.length && truth[t].to <= from) t++;
    while (v < seen.length && seen[v].to <= from) v++;
    const real = truth[t]?.from <= from ? truth[t] : null;
    const shown = seen[v]?.from <= from ? seen[v] : null;
    if (real && shown) {
      const apart = scene.shift - (shown.position - shown.from - real.position + real.from);
      emit(from, cuts[i + 1], apart ? SHIFTED : AGREE);
    } else if (real) emit(from, cuts[i + 1], real.gone ? ERASED : LOST);
    else if (shown) emitUnknown(from, cuts[i + 1], emit, scene);
  }
}

// Keys that the view shows and the true context lacks.
function emitUnknown(from, to, emit, { group, met, call }) {
  if (from >= group.own + group.count) return emit(from, to, FUTURE);
  if (!met) return emit(from, to, STALE);
  for (let i = lastAtMost(met.at, from), at = from; at < to; i++) {
    const end = Math.min(met.at[i + 1] ?? Infinity, to);
    emit(at, end, met.call[i] <= call ? STALE : FOREIGN);
    at = end;
  }
}

function addSpan(out, from, to, kind) {
  const last = out.kind.length - 1;
  const joins = last >= out.first[out.first.length - 1] && out.to[last] === from && out.kind[last] === kind;
  if (joins) out.to[last] = to;
  else {
    out.from.push(from);
    out.to.push(to);
    out.kind.push(kind);
  }
}
