// What the panes draw from: one decoded tree, judged under one view at a time. No drawing here.

import { birthNodes, distinct, nodeAt, previousCalls, rankOf, runsOf } from "./births.js";
import { AGREE, NAMES, NONE, classAt, groupOf, judge, leakCounts } from "./classes.js";
import { FETCHED, METRICS, awaitedMetric, metricOf, partsOf } from "./metrics.js";
import { whyNot } from "./missing.js";
import { lastAtMost } from "./sorted.js";
import { layOut } from "./timeline.js";

const QUOTED = 60; // characters that a sentence quotes

/**
 * Everything that follows from the tree alone, and `under(name)` for what follows from a view; where a
 * number is not known, wrong keys with what is `missing`. `supply(numbers, scored)` adds what was fetched:
 * {kind, view (all of them without one), codes, floor, scale}, or {kind, why} it cannot be known; and by
 * name {codes, floor, scale} of what the payload only says is known.
 */
export function modelOf(tree) {
  const layout = layOut(tree);
  for (const cut of layout.cuts) {
    const { kind = "rewrite", evicts = true } = tree.junctions.find(({ call }) => call === cut.call) ?? {};
    Object.assign(cut, { kind, evicts });
  }
  const bornAt = birthNodes(tree);
  const model = {
    tree,
    layout,
    keys: distinct(tree),
    targets: tree.targets.count,
    previous: previousCalls(tree),
    evictions: tree.junctions.filter((junction) => junction.evicts),
    bornAt,
    callOf: (target) => Math.max(lastAtMost(tree.targets.first, target), 0),
    segmentOf: (node) => lastAtMost(tree.segments.start, node),
    nodeOf(target) {
      const call = model.callOf(target);
      return nodeAt(tree, tree.calls.tip[call], tree.calls.prompt[call] + target - tree.targets.first[call]);
    },
    keyCall: (key) => tree.segments.firstCall[model.segmentOf(bornAt(key))],
    keyMark: (key) => tree.kinds[tree.runs.kind[lastAtMost(tree.runs.start, bornAt(key))]],
    words: (node, size = 1) => tree.text(node, Math.min(node + size, tree.nodes)).slice(0, QUOTED),
  };
  model.births = firstBirths(model);
  const views = new Map();
  model.under = (name, wanted) => {
    if (!views.has(name)) views.set(name, judged(model, name));
    return views.get(name)(wanted);
  };
  model.fetched = [];
  model.numbers = new Map(tree.numbers);
  const fits = ({ codes }) => !codes || codes.length === model.targets;
  model.supply = (numbers, scored = []) => {
    model.fetched = numbers.map((told) => (told.codes?.length === 1 ? { ...told, codes: new Uint8Array(model.targets).fill(told.codes[0]) } : told)).filter(fits);
    for (const [name, told] of scored) if (fits(told)) model.numbers.set(name, told);
  };
  return model;
}

// Where on the birth axis the text of each call begins, for calls that wrote any: {rank, call}.
function firstBirths({ tree, bornAt }) {
  const { start, length, firstCall } = tree.segments;
  const found = new Map();
  for (let s = 0; s < start.length; s++) {
    for (const { from } of runsOf(tree, { node: [start[s]], length: [length[s]], position: [0] })) {
      const born = bornAt(from);
      const call = firstCall[s];
      if (born >= start[s] && born < start[s] + length[s] && !(found.get(call) <= from)) found.set(call, from);
    }
  }
  return [...found].map(([call, rank]) => ({ call, rank })).sort((a, b) => a.rank - b.rank);
}

// What is known of one view: a function of the number it is coloured by. The same number gives the
// same object.
function judged(model, name) {
  const { tree } = model;
  const view = tree.views.find((shipped) => shipped.name === name) ?? { name, exact: true, rows: null, coverage: 1 };
  const found = judge(tree, view);
  const leaks = leakCounts(found, model.targets, model.keys);
  const comparison = tree.comparisons.find((told) => told.view === name) ?? null;
  const shared = {
    view,
    judged: found,
    leaks,
    comparison,
    targetOf: targetsByPlace(found),
    callShare: shareByCall(tree.targets.first, leaks.byTarget),
    diverges: divergence(found, model.targets),
    counts: (target) => classCounts(found, target),
    kinds: new Set([AGREE, ...found.kind]),
    having: targetsHaving(found),
    classOf: (target, key) => (target === null ? NONE : classAt(found, target, key)),
    trained: (target) => found.trained[lastAtMost(found.target, target)] === 1,
  };
  const fetched = (kind, why = false) => model.fetched.find((told) => told.kind === kind && (told.view ?? name) === name && (why || told.codes));
  const against = (comparison ?? tree.comparisons[0])?.against;
  const told = (part) => model.numbers.get(part);
  const facts = { view, against, targets: model.targets, comparison, recorded: tree.known.has("logprob"), judged: found, leaks, fetched, told };
  const own = METRICS.filter(([kind]) => !FETCHED.has(kind) && !partsOf(kind, facts).length);
  const fixed = new Map(own.map(([kind]) => [kind, metricOf(kind, facts)]));
  let [wholes, fetchedBefore] = [null, null];
  return (kind) => {
    if (model.fetched !== fetchedBefore) [wholes, fetchedBefore] = [wholesOf(model, shared, facts, fixed), model.fetched];
    return wholes.get(kind) ?? wholes.get("leaks");
  };
}

// What is known of a view by the number it is coloured by: all numbers share everything else. What is
// known but not here yet is drawn as nothing; `lacking(kinds)` names what the server is to send for it.
function wholesOf(model, shared, facts, fixed) {
  const made = new Map(METRICS.map(([kind]) => [kind, fixed.has(kind) ? fixed.get(kind) : metricOf(kind, facts)]));
  const number = (kind) => made.get(kind) ?? null;
  const isAwaited = (kind) => !number(kind) && !FETCHED.has(kind) && partsOf(kind, facts).every((part) => model.tree.known.has(part));
  const lacking = (kinds) => [...new Set(kinds.filter(isAwaited).flatMap((kind) => partsOf(kind, facts)))].filter((part) => !model.numbers.has(part));
  const known = [...made.keys()].filter((kind) => number(kind) || isAwaited(kind));
  const whole = (kind) => ({ ...shared, known, number, lacking, metric: number(kind) ?? awaitedMetric(kind, model.targets) });
  const wholes = new Map(known.map((kind) => [kind, whole(kind)]));
  for (const [kind, words] of METRICS) {
    if (!wholes.has(kind)) wholes.set(kind, { ...wholes.get("leaks"), missing: { kind, words, why: whyNot(kind, facts) } });
  }
  return wholes;
}

// Share of each call's targets that have wrong keys.
function shareByCall(first, byTarget) {
  return Float32Array.from({ length: first.length - 1 }, (_, call) => {
    const own = byTarget.subarray(first[call], first[call + 1]);
    return own.length ? own.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0) / own.length : 0;
  });
}

// Targets whose keys differ from the truth in any way, shifted ones too: uint8 a target.
function divergence(found, targets) {
  const diverges = new Uint8Array(targets);
  found.target.forEach((target, group) => {
    const kinds = found.kind.subarray(found.first[group], found.first[group + 1]);
    if (found.trained[group] && kinds.some((kind) => kind !== AGREE)) diverges.fill(1, target, target + found.count[group]);
  });
  return diverges;
}

// How many trained targets have keys of each class: by index of the class.
function targetsHaving(found) {
  const having = new Uint32Array(NAMES.length);
  found.target.forEach((_, group) => {
    const kinds = new Set(found.kind.subarray(found.first[group], found.first[group + 1]));
    for (const kind of kinds) having[kind] += found.count[group];
  });
  return having;
}

// Keys of each class that a target has, own earlier tokens left out: [kind, count] pairs.
function classCounts(found, target) {
  const group = groupOf(found, target);
  const counts = new Map();
  for (let span = found.first[group]; span < found.first[group + 1]; span++) {
    const kind = found.kind[span];
    counts.set(kind, (counts.get(kind) ?? 0) + found.to[span] - found.from[span]);
  }
  return counts;
}

// The target that sampled the token at a place of the birth axis, or -1: the first one if several.
function targetsByPlace(found) {
  const order = Array.from(found.own, (own, group) => ({ own, group })).sort((a, b) => a.own - b.own || a.group - b.group);
  const starts = Uint32Array.from(order, ({ own }) => own);
  return (rank) => {
    let i = lastAtMost(starts, rank);
    while (i > 0 && starts[i - 1] === starts[i]) i--;
    if (i < 0) return -1;
    const { own, group } = order[i];
    return rank < own + found.count[group] ? found.target[group] + rank - own : -1;
  };
}

/** A whole selection {call, segment, target, key, lane} from any part of one; null if unknown. */
export function completed(model, told) {
  const { tree } = model;
  const whole = { call: null, segment: null, target: null, key: null, ...told };
  const within = (value, size) => Number.isInteger(value) && value >= 0 && value < size;
  if (!within(whole.target, model.targets)) whole.target = null;
  if (!within(whole.key, model.keys)) whole.key = null;
  if (whole.target !== null) {
    whole.call = model.callOf(whole.target);
    whole.segment = model.segmentOf(model.nodeOf(whole.target));
  }
  if (!within(whole.call, tree.calls.tip.length)) return null;
  if (!within(whole.segment, tree.segments.start.length)) {
    if (tree.calls.tip[whole.call] < 0) return null;
    whole.segment = model.segmentOf(tree.calls.tip[whole.call]);
  }
  whole.lane = tree.calls.lineage[whole.call];
  return whole;
}

/** Place on the birth axis of the token that a mark points at: its key, else its target; or null. */
export function placeOf(model, mark) {
  if (!mark) return null;
  if (mark.key !== null && mark.key !== undefined) return mark.key;
  return mark.target === null || mark.target === undefined ? null : rankOf(model.tree, model.nodeOf(mark.target));
}
