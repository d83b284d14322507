// What each number means, with its formula and what went into it here. Pure.

import { COUNTED, NAMES } from "./classes.js";
import { SENTENCES } from "./tips.js";
import { grouped } from "./text.js";

/** [{name, says, formula, inputs}] about the view and, where one is chosen, the sampled token. */
export function explanationOf({ model, under, selected, hover }) {
  const target = (hover ?? selected)?.target ?? null;
  const told = [coverage(model, under)];
  if (under.number("drift")) told.push(floor(under));
  if (under.missing) told.push(missing(under));
  else if (under.metric.kind in SHOWN) told.push(shown(model, under, target));
  if (target !== null && under.trained(target)) told.push(...ofToken(model, under, target));
  else told.push(...classes(under));
  return under.metric.awaited ? told : [...told, colours(under)];
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
    inputs: targets
      ? `${grouped(view.coverage * targets)} / ${grouped(targets)} = ${(100 * view.coverage).toFixed(1)} % under ${view.name}`
      : "nothing was sampled: there is nothing to cover",
  };
}

function floor({ comparison, number }) {
  return {
    name: "floor",
    says: "Drift that noise alone explains: two exact layouts are scored on the same tokens, and nothing that they differ by counts.",
    formula: "max(99.9th percentile, 3 × median, 0.00001) of |drift| between two exact layouts",
    inputs: `${number("drift").floor.toPrecision(2)} nats, for ${comparison.view} against ${comparison.against}, model ${comparison.model}`,
  };
}

// Where the colours of text and strip end, and how many tokens are marked because they lie beyond.
function colours({ metric: { words, unit, scale, clip } }) {
  const beyond = clip.beyond ? `${grouped(clip.beyond)} beyond it, up to ${digits(scale)}, marked by a corner in the text and a cap in the strip` : "none beyond it";
  return {
    name: "colour scale",
    says: "A few extreme numbers would leave all others pale: from here on the colour is the same.",
    formula: `99.5th percentile of the size of ${words} over the sampled tokens that have a colour`,
    inputs: `${digits(clip.number)} ${unit}; ${beyond}`,
  };
}

// Numbers that are not explained anywhere else: what each is and how it is made.
const SHOWN = {
  size: ["How far the log-probability of a token moves, whichever way.", "|log p under the view − log p in the true context|, in nats"],
  view: ["How likely the token is in the row that this view feeds to the model.", "log p of the sampled token under the view, in nats; 0 is certain"],
  true: ["How likely the token is in the context it was sampled from, by the weights that scored it.", "log p of the sampled token in its true context, in nats; 0 is certain"],
  agent: ["How likely the token was when it was sampled, as the agent's engine wrote it down.", "log p recorded, in nats; 0 is certain"],
  gap: ["What a trainer measures: this view against the sampler, context, engine and weights together.", "log p under the view at the sampling temperature − log p recorded, in nats"],
  kl: ["How far the whole prediction moves, not only the probability of the token that was sampled.", "KL(p in the true context ‖ p under the view) = Σ p log(p / q) over the vocabulary, in nats; floor: (floor of log p)² / 2, at least 0.00001"],
  entropy: ["How undecided the model is in the true context.", "−Σ p log p over the vocabulary, in nats"],
  change: ["How much more undecided the view leaves the model.", "entropy under the view − entropy in the true context, in nats"],
  terms: ["How often the view trains the token.", "edges of the view that predict it"],
  weight: ["How much of the view's loss the token has. More than 1: it counts for tokens that the view leaves out, or trains several times.", "(loss terms / tokens that the view trains) × all sampled tokens; a further KL term of sdcc is not counted"],
  advantage: ["What a policy gradient multiplies the loss of every token of this rollout by.", "(reward − mean reward of the same task) / spread of the rewards"],
  beside: ["Two scorings of the same tokens, side by side.", "number of B − number of A"],
};

function shown(model, under, target) {
  const { metric } = under;
  const [says, formula] = SHOWN[metric.kind];
  const value = target === null ? null : metric.value(target);
  const range = metric.awaited ? "it is being loaded" : `up to ${digits(metric.scale)} ${metric.unit} in this rollout`;
  return { name: metric.words, says: metric.about ? `${says} ${metric.about}` : says, formula, inputs: value === null ? range : `this token: ${digits(value)} ${metric.unit}; ${range}` };
}

const digits = (number) => String(Number(number.toPrecision(3)));

function missing({ missing: { words, why } }) {
  return { name: words, says: "It is not known here.", formula: "-", inputs: `because ${why}` };
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
