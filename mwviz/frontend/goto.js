// What the "go to" box understands, in words and numbers. Pure.

import { grouped } from "./text.js";

export const EXAMPLES = "call 88 · call 88 tok 12 · tok 81204 · ev 3 · q 100-300 k 40k-44k";

const SCALES = { "": 1, k: 1e3, m: 1e6 };
const NUMBER = "(\\d[\\d,_]*(?:\\.\\d+)?[kKmM]?)";
const FORMS = [
  [new RegExp(`^(?:c|call)?\\s*${NUMBER}$`, "i"), (model, call) => ofCall(model, call)],
  [new RegExp(`^(?:c|call)\\s*${NUMBER}[\\s,]+(?:t|tok|token)\\s*${NUMBER}$`, "i"), ofToken],
  [new RegExp(`^(?:t|tok|token)\\s*${NUMBER}$`, "i"), (model, target) => within(target, model.targets, "sampled tokens") ?? { mark: { target } }],
  [new RegExp(`^(?:s|seg|segment)\\s*${NUMBER}$`, "i"), ofSegment],
  [new RegExp(`^(?:e|ev|eviction)\\s*${NUMBER}$`, "i"), ofEviction],
];
const RANGE = new RegExp(`^${NUMBER}\\s*(?:-|–|\\.\\.)\\s*${NUMBER}$`);

/**
 * Where `text` leads: {mark} (a part of a selection), {range: {y0, y1, x0, x1}} (a window of the mask,
 * a side may be null) or {error} (a sentence).
 */
export function understand(text, model) {
  const asked = text.trim();
  if (!asked) return { error: `For example: ${EXAMPLES}` };
  if (/^[qk]\b|^[qk]\s*\d/i.test(asked)) return rangeOf(asked, model);
  for (const [form, act] of FORMS) {
    const found = asked.match(form);
    if (found) return act(model, ...found.slice(1).map(number));
  }
  return { error: `Not understood. For example: ${EXAMPLES}` };
}

/** 81204 from `81,204`, `81204` or `81.204k`. */
export function number(text) {
  const [, digits, scale] = text.match(/^([\d,_.]+)([kKmM]?)$/);
  return Math.round(Number(digits.replace(/[,_]/g, "")) * SCALES[scale.toLowerCase()]);
}

function ofCall(model, call) {
  return within(call, model.tree.calls.tip.length, "calls") ?? { mark: { call } };
}

function ofToken(model, call, offset) {
  const wrong = within(call, model.tree.calls.tip.length, "calls");
  if (wrong) return wrong;
  const { first } = model.tree.targets;
  return within(offset, first[call + 1] - first[call], `sampled tokens in call ${call}`) ?? { mark: { target: first[call] + offset } };
}

function ofSegment({ tree }, segment) {
  const call = tree.segments.firstCall[segment];
  return within(segment, tree.segments.start.length, "segments") ?? { mark: { call, segment } };
}

function ofEviction({ evictions }, index) {
  return within(index - 1, evictions.length, "evictions", 1) ?? { mark: { call: evictions[index - 1].call } };
}

function rangeOf(asked, model) {
  const range = { x0: null, x1: null, y0: null, y1: null };
  for (const part of asked.split(/\s+(?=[qk]\b|[qk]\s*\d)/i)) {
    const found = part.slice(1).trim().match(RANGE);
    if (!found) return { error: "A range is a letter and two numbers: q (sampled tokens, down) or k (text, across), as in q 100-300 k 40k-44k" };
    const [low, high] = found.slice(1).map(number);
    const [axis, most, things] = /^q/i.test(part) ? ["y", model.targets, "sampled tokens"] : ["x", model.keys, "tokens of text"];
    if (low >= high) return { error: `${grouped(low)}-${grouped(high)} is empty: the first number must be the smaller one` };
    const wrong = within(low, most, things);
    if (wrong) return wrong;
    range[`${axis}0`] = low;
    range[`${axis}1`] = Math.min(high, most);
  }
  return { range };
}

function within(value, size, things, first = 0) {
  if (value >= 0 && value < size) return null;
  if (!size) return { error: `There are no ${things}` };
  return { error: `There are ${grouped(size)} ${things}, ${first} to ${grouped(size - 1 + first)}` };
}
