// What each number of a token is made of: a formula, then the same with its inputs. Pure.

import { counted, grouped } from "./text.js";

const round = (value) => `${value < 0 ? "−" : ""}${Math.abs(value).toPrecision(3).replace(/^(\d+)\.0+$/, "$1")}`;
const nats = (value) => `${round(value)} nats`;
const floorOf = (floor) => String(Number(floor.toPrecision(2)));

/** A drift as people say it: `21 times less likely`. */
export function inWords(drift) {
  const times = Math.exp(Math.abs(drift));
  if (times < 1.005) return "as likely";
  const size = times < 1.95 ? `${Math.round(100 * (times - 1))} %` : times < 1000 ? `${round(times)} times` : `e^${round(Math.abs(drift))} times`;
  return `${size} ${drift < 0 ? "less" : "more"} likely`;
}

/** What the numbers of a token are in and what they are to be held against; "" where no model has scored it. */
export function termsOf({ n }) {
  return n.floor === undefined ? "" : `In nats (ranks are counts); noise alone reaches ${floorOf(n.floor)}. Click a number, or press e, for its formula.`;
}

/** What hiding a source does to the token's log-probability, in words; `floor` where it is known. */
export function effectOf(change, floor) {
  if (floor !== undefined && Math.abs(change) <= floor) return "no more than noise";
  return `${change > 0 ? "+" : "−"}${Math.abs(change).toPrecision(2)} nats`;
}

/** Every number that is known of a token: {name, shown, formula, inputs}. */
export function numbersOf({ n, view, whatif }) {
  const known = (...names) => names.every((name) => n[name] !== undefined && n[name] !== null);
  const made = [];
  const add = (name, shown, formula, inputs) => made.push({ name, shown, formula, inputs });
  if (known("true", "view")) {
    const drift = n.view - n.true;
    add("drift", `${drift > 0 ? "+" : ""}${round(drift)}`, `log p under ${view} − log p in the true context`,
      `${round(n.view)} − (${round(n.true)}) = ${nats(drift)}: ${view} makes the token ${inWords(drift)}. `
      + `Noise alone reaches ${floorOf(n.floor)} nats.`);
  }
  if (known("true")) add("log p true", round(n.true), "log-probability of the token after what the agent saw, same weights",
    `probability ${round(Math.exp(n.true))}; 0 is certain`);
  if (known("view")) add(`log p ${view}`, round(n.view), `log-probability of the token in the row of ${view}, same weights`,
    `probability ${round(Math.exp(n.view))}; 0 is certain`);
  if (known("recorded")) add("log p recorded", round(n.recorded), "log-probability that the sampler wrote down",
    known("view") ? `gap = log p ${view} − log p recorded = ${nats(n.view - n.recorded)}` : "no view scores this token");
  if (known("rank_true")) add("rank true", grouped(n.rank_true), "tokens that are likelier in the true context", "0: the most likely one");
  if (known("rank_view")) add(`rank ${view}`, grouped(n.rank_view), `tokens that are likelier under ${view}`, "0: the most likely one");
  if (known("entropy_true", "entropy_view")) add("entropy", `${round(n.entropy_true)} → ${round(n.entropy_view)}`,
    `how undecided the model is, true context → ${view}: −Σ p log p`, `changes by ${nats(n.entropy_view - n.entropy_true)}`);
  if (whatif) {
    const [call, tokens, change, floor] = whatif;
    const kept = `log p with the ${counted(tokens, "token")} put back that left before call ${call} − log p without them, in the true context, same weights`;
    const told = change ? `${nats(change)}: with that text the token is ${inWords(change)}.` : "No more than noise:";
    add(`if nothing had left before call ${call}`, change ? `${change > 0 ? "+" : ""}${round(change)}` : "no change", kept, `${told} Noise alone reaches ${floorOf(floor)} nats.`);
  }
  return made;
}
