// What each number means, with its formula and what went into it here. Pure.

import { COUNTED, NAMES } from "./classes.js";
import { SENTENCES } from "./tips.js";
import { grouped } from "./text.js";

/** [{name, says, formula, inputs}] about the view and, where one is chosen, the sampled token. */
export function explanationOf({ model, under, selected, hover }) {
  const target = (hover ?? selected)?.target ?? null;
  const told = [coverage(model, under)];
  if (under.number("drift")) told.push(floor(under));
  if (target !== null && under.trained(target)) told.push(...ofToken(model, under, target));
  else told.push(...classes(under));
  return told;
}

// What the mask's colours stand for, as far as they occur.
function classes({ having, kinds, view }) {
  return COUNTED.filter((kind) => kinds.has(kind)).map((kind) => ({
    name: NAMES[kind],
    says: SENTENCES[NAMES[kind]],
    formula: "sampled tokens with at least one such key",
    inputs: `${grouped(having[kind])} under ${view.name}`,
  }));
}

function coverage({ targets }, { view }) {
  return {
    name: "coverage",
    says: "The share of all sampled tokens that this view trains.",
    formula: "trained sampled tokens / sampled tokens",
    inputs: `${grouped(view.coverage * targets)} / ${grouped(targets)} = ${(100 * view.coverage).toFixed(1)} % under ${view.name}`,
  };
}

function floor({ comparison }) {
  return {
    name: "floor",
    says: "Drift that noise alone explains: two exact layouts are scored on the same tokens, and nothing that they differ by counts.",
    formula: "max(99.9th percentile, 3 × median, 0.00001) of |drift| between two exact layouts",
    inputs: `${comparison.floor.toPrecision(2)} nats, for ${comparison.view} against ${comparison.against}, model ${comparison.model}`,
  };
}

function ofToken(model, under, target) {
  const call = model.callOf(target);
  const where = `call ${call}, token ${grouped(target - model.tree.targets.first[call])}`;
  return [...drift(under, target, where), wrong(under, target, where)];
}

function drift(under, target, where) {
  const value = under.number("drift")?.value(target) ?? null;
  if (value === null) return [];
  const [view, own] = ["view", "true"].map((kind) => under.number(kind)?.value(target) ?? null);
  const known = view !== null && own !== null;
  return [{
    name: "drift",
    says: "How much more (+) or less (−) likely the token is under this view than in the context it was sampled from, by the same weights.",
    formula: "log p under the view − log p in the true context, in nats",
    inputs: known ? `${where}: about ${view.toPrecision(3)} − ${own.toPrecision(3)} = ${value.toPrecision(3)} (exact values: below, in the inspector)` : `${where}: ${value.toPrecision(3)}`,
  }];
}

function wrong(under, target, where) {
  const counts = under.counts(target);
  const found = COUNTED.filter((kind) => counts.get(kind));
  const parts = found.map((kind) => `${NAMES[kind]} ${grouped(counts.get(kind))} (${SENTENCES[NAMES[kind]]})`);
  return {
    name: "wrong keys",
    says: "Tokens of text that the view shows this token wrongly. Keys at another distance (shifted) are told apart and not counted.",
    formula: "future + erased + stale + foreign + lost",
    inputs: `${where}: ${parts.length ? parts.join("; ") : "none"}`,
  };
}
