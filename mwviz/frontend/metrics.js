// One number a sampled token, by which text and strip are coloured. Pure.

import { logLevel, nats } from "./drift.js";

/** Every number there may be: its name and what a reader calls it. */
export const METRICS = [
  ["drift", "drift"],
  ["size", "|drift|"],
  ["view", "log p, this view"],
  ["true", "log p, what it saw"],
  ["agent", "log p, recorded"],
  ["gap", "gap to recorded"],
  ["kl", "KL to what it saw"],
  ["entropy", "entropy, what it saw"],
  ["change", "change of entropy"],
  ["leaks", "wrong keys"],
  ["terms", "loss terms"],
  ["weight", "loss weight"],
  ["advantage", "advantage"],
  ["beside", "B - A"],
];
// Numbers below and above zero, told apart by colour.
const SIGNED = new Set(["drift", "gap", "change", "advantage", "beside"]);
// Numbers on an even scale from 0, with what they are counted in; all others are nats on a log scale.
const EVEN = { leaks: "tokens", terms: "terms", weight: "shares", advantage: "spreads" };
/** Numbers that are sent beside the payload, and may come later. */
export const FETCHED = new Set(["kl", "advantage", "beside"]);
// Numbers with a measured floor.
const BANDED = new Set(["drift", "size", "gap", "kl", "beside"]);
const CLIPPED = 200; // of so many tokens that have a colour, one may lie beyond the colours' end
const DECADES = 3; // of a drawn log scale; smaller numbers are drawn as small as the smallest

/**
 * The number `kind` of a view, ready to draw: `value(t)` (null: not known), `level(t)` (-1 to 1 on a
 * log scale; 0: nothing to show), `worst` (targets, largest first), `floor` and `scale` of its size,
 * `clip`, where its colours end; null where it is not known here. `facts`: {view, against (what judges it),
 * targets, judged, leaks, fetched, told}; `fetched(kind)` is what was sent for this view alone, `told(name)`
 * a number of `partsOf`.
 */
export function metricOf(kind, facts) {
  const parts = partsOf(kind, facts).map(facts.told);
  const made = parts.every(Boolean) ? MAKERS[kind](facts, ...parts) : null;
  return made && described(kind, made);
}

/** The number `kind` until the server has sent it: nothing is drawn of it. */
export function awaitedMetric(kind, targets) {
  const none = { count: targets, low: 1, scale: 1, floor: 0, value: () => null, level: () => 0 };
  return { ...described(kind, none), banded: false, awaited: true };
}

/** Names (mwviz/numberpacking.py) of what a number is made of; none if the browser works it out itself. */
export function partsOf(kind, { view, against }) {
  return PARTS[kind]?.(view.name, against) ?? [];
}

function described(kind, made) {
  let [worst, clip] = [null, null];
  return {
    kind,
    signed: SIGNED.has(kind),
    unit: EVEN[kind] ?? "nats",
    even: kind in EVEN,
    banded: BANDED.has(kind),
    words: Object.fromEntries(METRICS)[kind],
    ...made,
    get worst() {
      return (worst ??= ranked(made));
    },
    get clip() {
      return (clip ??= clipOf(made));
    },
  };
}

// Where the colours end: the 99.5th percentile of the sizes of all that has a colour, as a `level` and
// a `number`, and how many targets are `beyond` it.
function clipOf({ count, level, value, scale }) {
  const sizes = new Float64Array(count);
  let coloured = 0;
  for (let target = 0; target < count; target++) {
    const size = Math.abs(level(target));
    if (size) sizes[coloured++] = size;
  }
  if (!coloured) return { level: 1, number: scale, beyond: 0 };
  const sorted = sizes.subarray(0, coloured).sort();
  const end = sorted[coloured - 1 - Math.floor(coloured / CLIPPED)];
  let target = 0;
  while (Math.abs(level(target)) !== end) target++;
  return { level: end, number: Math.abs(value(target)), beyond: coloured - 1 - sorted.lastIndexOf(end) };
}

function ranked({ count, level }) {
  const found = [];
  for (let target = 0; target < count; target++) if (level(target)) found.push(target);
  return found.sort((a, b) => Math.abs(level(b)) - Math.abs(level(a)) || a - b);
}

const PARTS = {
  drift: (view) => [`${view}:drift`],
  size: (view) => [`${view}:drift`],
  true: (view, against) => [`${against}:logprob`],
  agent: () => ["logprob"],
  view: (view, against) => [`${view}:drift`, `${against}:logprob`],
  gap: (view) => [`${view}:gap`],
  entropy: (view, against) => [`${against}:entropy`],
  change: (view) => [`${view}:change`],
};
const MAKERS = {
  drift: (facts, drift) => ofCodes(drift, (number) => number),
  size: (facts, drift) => ofCodes(drift, Math.abs),
  true: (facts, own) => ofCodes(own, (number) => number, -1),
  agent: (facts, recorded) => ofCodes(recorded, (number) => number, -1),
  view: (facts, drift, own) => summed(drift, own),
  gap: (facts, gap) => ofCodes(gap, (number) => number),
  entropy: (facts, entropy) => ofCodes(entropy, (number) => number),
  change: (facts, change) => ofCodes(change, (number) => number),
  kl: ({ fetched }) => fetched?.("kl") && ofCodes(fetched("kl"), (number) => number),
  beside: ({ fetched }) => fetched?.("beside") && { ...ofCodes(fetched("beside"), (number) => number), about: fetched("beside").about },
  advantage: ({ fetched }) => fetched?.("advantage") && ofAdvantages(fetched("advantage")),
  leaks: ({ judged, leaks }) => ofLeaks(judged, leaks),
  terms: ({ view, targets }) => ofTerms(view, targets),
  weight: ({ view, targets }) => ofWeights(view, targets),
};

// A number told as one byte; `sign` -1 draws what is below zero as large.
function ofCodes({ codes, floor, scale }, shown, sign = 1) {
  const low = Math.max(floor, scale / 10 ** DECADES);
  const table = Array.from({ length: 256 }, (_, code) => nats(code, { floor, scale }));
  const values = table.map((number) => (number === null ? null : shown(number)));
  const levels = values.map((number) => logLevel(sign * (number ?? 0), low, scale));
  return { count: codes.length, low, scale, floor, value: (target) => values[codes[target]], level: (target) => levels[codes[target]] };
}

// The log-probability under a view: that in the true context and the drift.
function summed(moved, own) {
  const scale = moved.scale + own.scale;
  const low = Math.max(own.floor, scale / 10 ** DECADES);
  const value = (target) => {
    const [drift, before] = [nats(moved.codes[target], moved), nats(own.codes[target], own)];
    return drift === null || before === null ? null : Math.min(before + drift, 0);
  };
  return { count: moved.codes.length, low, scale, floor: own.floor, value, level: (target) => logLevel(-(value(target) ?? 0), low, scale) };
}

function ofLeaks(judged, { byTarget }) {
  const trained = new Uint8Array(byTarget.length);
  judged.target.forEach((target, g) => trained.fill(judged.trained[g], target, target + judged.count[g]));
  const scale = byTarget.reduce((most, count) => Math.max(most, count), 1);
  const value = (target) => (trained[target] ? byTarget[target] : null);
  const level = (target) => (trained[target] && byTarget[target] ? Math.log1p(byTarget[target]) / Math.log1p(scale) : 0);
  return { count: byTarget.length, low: 0, scale, floor: 0, value, level };
}

// How often a view trains each target: a layout with a row a branch repeats what branches share.
function countTerms({ rows }, targets) {
  const terms = new Uint16Array(targets).fill(rows ? 0 : 1);
  for (const { edges: [, target, count] } of rows ?? []) target.forEach((first, e) => {
    for (let t = first; t < first + count[e]; t++) terms[t]++;
  });
  return terms;
}

function ofTerms(view, targets) {
  return evenly(countTerms(view, targets), 1);
}

// The share of the view's loss that a target has, against an even share among all that were sampled:
// the loss is the sum over its terms, divided by the targets that it trains.
function ofWeights(view, targets) {
  const terms = countTerms(view, targets);
  const trained = terms.reduce((sum, count) => sum + (count ? 1 : 0), 0);
  return evenly(terms, trained ? targets / trained : 1);
}

function evenly(terms, each) {
  const scale = each * terms.reduce((most, count) => Math.max(most, count), 1);
  return { count: terms.length, low: 0, scale, floor: 0, value: (target) => each * terms[target] || null, level: (target) => (each * terms[target]) / scale };
}

function ofAdvantages(told) {
  const made = ofCodes(told, (number) => number);
  return { ...made, low: 0, floor: 0, level: (target) => (made.value(target) ?? 0) / told.scale };
}
