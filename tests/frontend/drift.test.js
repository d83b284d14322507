import assert from "node:assert/strict";
import test from "node:test";

import { INSIDE, UNCOVERED, envelope, logLevel, logTicks, nats } from "../../mwviz/frontend/drift.js";
import { seek } from "../../mwviz/frontend/keys.js";
import { metricOf } from "../../mwviz/frontend/metrics.js";
import { isClipped, markedTint, metricTint } from "../../mwviz/frontend/theme.js";

const told = { floor: 0.001, scale: 10 };

test("codes are signed steps of a log scale, with zero inside the floor", () => {
  assert.equal(nats(UNCOVERED, told), null);
  assert.equal(nats(INSIDE, told), 0);
  assert.equal(nats(INSIDE + 1, told), 0.001);
  assert.ok(Math.abs(nats(INSIDE + 127, told) - 10) < 1e-9);
  assert.ok(Math.abs(nats(INSIDE - 127, told) + 10) < 1e-9);
});

test("levels keep sign and order, and never fall to zero", () => {
  const levels = [-10, -0.1, -0.001, 0.002, 5, 10].map((number) => logLevel(number, 0.01, 10));
  assert.deepEqual(levels, [...levels].sort((a, b) => a - b));
  assert.deepEqual([levels[0], levels[5], logLevel(0, 0.01, 10)], [-1, 1, 0]);
  assert.ok(Math.abs(levels[2]) >= 0.06);
  assert.deepEqual(logTicks(0.01, 12), [10, 1, 0.1, 0.01]);
});

const codes = Uint8Array.of(128, 0, 200, 10, 128, 129, 255, 0);
const numbers = {
  "replay:drift": { ...told, codes },
  "replay:change": { floor: 0.01, scale: 2, codes: Uint8Array.of(255, 0, 1, 128, 128, 128, 128, 128) },
  "logit_tree:entropy": { floor: 0.001, scale: 3, codes: Uint8Array.of(255, 128, 128, 128, 0, 129, 128, 128) },
  "logit_tree:logprob": { floor: 0.001, scale: 4, codes: Uint8Array.of(1, 1, 128, 1, 0, 64, 128, 128) },
};
const known = (more) => (name) => ({ ...numbers, ...more })[name];
const twice = { name: "replay", rows: [{ edges: [[0, 4], [0, 2], [4, 1]] }, { edges: [[0], [2], [3]] }] };
const facts = { view: twice, against: "logit_tree", targets: 8, told: known(), judged: null, leaks: null };
const metric = metricOf("drift", facts);

test("targets are ranked by the size of their drift", () => {
  assert.deepEqual(metric.worst, [6, 3, 2, 5]);
});

test("the size of drift has no sign; log-probabilities stand up the more the less likely", () => {
  const size = metricOf("size", facts);
  assert.equal(size.value(3), -metric.value(3));
  assert.equal(size.signed, false);
  assert.deepEqual(size.worst, metric.worst);
  const own = metricOf("true", facts);
  assert.deepEqual([own.value(0), own.value(2), own.value(4)], [-4, 0, null]);
  assert.deepEqual([own.level(0), own.level(2)], [1, 0]);
  assert.equal(metricOf("agent", facts), null);
});

test("the log-probability under a view is that of the true context and the drift, at most 0", () => {
  const view = metricOf("view", facts);
  assert.ok(Math.abs(view.value(3) - (-4 + metric.value(3))) < 1e-9);
  assert.equal(view.value(0), -4); // inside the floor
  assert.equal(view.value(2), 0); // above 0 only by rounding
  assert.deepEqual([view.value(1), view.value(4)], [null, null]);
});

test("entropy, its change and the gap are drawn where they are told; change and gap have signs", () => {
  const [own, change] = ["entropy", "change"].map((kind) => metricOf(kind, facts));
  assert.ok(Math.abs(own.value(0) - 3) < 1e-9);
  assert.deepEqual([own.value(1), own.value(4), own.signed], [0, null, false]);
  assert.deepEqual([change.level(0), change.level(2), change.value(1), change.signed], [1, -1, null, true]);
  assert.equal(metricOf("gap", facts), null);
  const gap = { floor: 0.1, scale: 5, codes: Uint8Array.of(1, 128) };
  const recorded = metricOf("gap", { ...facts, told: known({ "replay:gap": gap }) });
  assert.deepEqual([recorded.value(0), recorded.level(0), recorded.signed], [-5, -1, true]);
});

test("loss terms count the rows that train a token; an exact view has one on each", () => {
  const terms = metricOf("terms", facts);
  assert.deepEqual(Array.from({ length: 8 }, (_, t) => terms.value(t)), [1, 1, 3, 2, 1, null, null, null]);
  assert.deepEqual([terms.scale, terms.level(2), terms.level(7)], [3, 1, 0]);
  const exact = metricOf("terms", { ...facts, view: { rows: null } });
  assert.deepEqual([exact.value(7), exact.scale], [1, 1]);
});

test("an envelope loses no peak and says what is not trained", () => {
  const { least, most, bare } = envelope(metric, 0, 8, 2);
  assert.equal(most[1], 1);
  assert.ok(least[0] < -0.9 && most[0] > 0.4);
  assert.deepEqual([...bare], [0.25, 0.25]);
});

test("d goes to the largest drift and on to the next, l along wrong tokens", () => {
  const under = { metric, leaks: { byTarget: Uint32Array.of(0, 0, 3, 3, 0, 7, 7, 0) } };
  assert.equal(seek("d", under, null), 6);
  assert.equal(seek("d", under, 6), 3);
  assert.equal(seek("D", under, 3), 6);
  assert.equal(seek("d", under, 5), 5);
  assert.equal(seek("l", under, null), 2);
  assert.equal(seek("l", under, 2), 5);
  assert.equal(seek("L", under, 5), 2);
  assert.equal(seek("x", under, 5), null);
});

// 400 tokens inside the floor, 398 of 100 sizes below and above zero, two far ones and one not trained.
test("colours end at the 99.5th percentile of what has one; what lies beyond has the end colour and a mark", () => {
  const drawn = Array.from({ length: 398 }, (_, i) => INSIDE + (i % 2 ? 1 : -1) * (1 + (i % 100)));
  const far = [INSIDE + 127, INSIDE - 120];
  const spread = Uint8Array.from([...Array(400).fill(INSIDE), ...drawn, ...far, UNCOVERED]);
  const wide = metricOf("drift", { ...facts, told: known({ "replay:drift": { ...told, codes: spread } }) });
  const sizes = Array.from(spread, (code) => Math.abs(nats(code, told) ?? 0)).filter(Boolean).sort((a, b) => a - b);
  assert.equal(wide.clip.number, sizes[Math.ceil(0.995 * sizes.length) - 1]);
  assert.equal(wide.clip.beyond, 2);
  for (const theme of [{ dark: false, background: "#ffffff" }, { dark: true, background: "#0e1117" }]) {
    const [most, ...levels] = [798, 400 + 99, 400].map(wide.level);
    assert.ok(isClipped(wide, most) && isClipped(wide, wide.level(799)));
    assert.deepEqual(levels.filter((level) => isClipped(wide, level)), []);
    assert.equal(metricTint(wide, most, theme), metricTint(wide, wide.level(400 + 99), theme));
    assert.notEqual(metricTint(wide, most, theme), metricTint(wide, wide.level(400), theme));
    assert.match(markedTint(wide, most, theme), /^linear-gradient.*, /);
    assert.equal(markedTint(wide, levels[0], theme), metricTint(wide, levels[0], theme));
  }
});

test("fewer than 200 coloured tokens have none beyond the colours; no colour at all ends at the scale", () => {
  assert.deepEqual([metric.clip.level, metric.clip.beyond], [1, 0]);
  assert.ok(Math.abs(metric.clip.number - 10) < 1e-9);
  const none = metricOf("drift", { ...facts, told: known({ "replay:drift": { ...told, codes: Uint8Array.of(INSIDE, UNCOVERED) } }) });
  assert.deepEqual(none.clip, { level: 1, number: 10, beyond: 0 });
});
