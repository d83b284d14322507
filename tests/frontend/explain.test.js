import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { explanationOf } from "../../mwviz/frontend/explain.js";
import { maskAxes } from "../../mwviz/frontend/maskaxes.js";
import { METRICS } from "../../mwviz/frontend/metrics.js";
import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { beyondOf, endsOf } from "../../mwviz/frontend/scalekey.js";
import { tableOf } from "../../mwviz/frontend/tables.js";

// Contexts: one two three | one four three five (three kept) | é xxx... (of another agent).
// The fixture names no junctions, so that what leaves later counts as lost.
const model = modelOf(decode(new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url)))));
const under = model.under("rightmost", "drift");
const bench = { model, under, selected: null, hover: null, shownCall: 1, metric: "leaks" };

test("numbers are explained with what went into them", () => {
  const told = explanationOf(bench);
  assert.equal(told[0].inputs, "2 / 3 = 66.7 % under rightmost");
  const token = explanationOf({ ...bench, selected: { target: 0 } });
  assert.deepEqual(token.map(({ name }) => name), ["coverage", "drift", "wrong keys", "colour scale"]);
  assert.match(token[1].inputs, /because no model has scored rightmost/);
  assert.match(token[2].inputs, /call 0, token 0: future 1 \(Time travel.*lost 1/);
});

test("where nothing was sampled there is nothing to cover", () => {
  const view = { ...under.view, coverage: null };
  const [told] = explanationOf({ ...bench, model: { ...model, targets: 0 }, under: Object.create(under, { view: { value: view } }) });
  assert.equal(told.inputs, "nothing was sampled: there is nothing to cover");
});

test("where nothing is measured the number shown is how many keys are wrong", () => {
  assert.deepEqual(under.known, ["leaks", "terms", "weight"]);
  assert.equal(under.metric.kind, "leaks");
  assert.deepEqual([0, 1, 2].map((target) => under.metric.value(target)), [2, 0, null]);
});

test("tables say what the drawings show", () => {
  const calls = tableOf("timeline", bench);
  assert.deepEqual(calls.row(1), [1, "agent-0", 3, 1, "", 0, 0]);
  const pairs = tableOf("mask", bench);
  assert.deepEqual(pairs.columns.slice(0, 4), ["call", "sampled tokens", "agree", "future"]);
  assert.deepEqual(pairs.row(0), [0, 1, 1, 1, 0, 0, 0, 1, 0]);
  assert.deepEqual(tableOf("drift", bench).mark(0), { target: 0 });
});

test("a mark has a place in either order, and a place leads back to it", () => {
  for (const order of ["time", "packed"]) {
    const axes = maskAxes(model, under, order);
    const { x, y } = axes.where({ target: 0, key: 1, call: 0 });
    if (order === "time") assert.deepEqual([x, y], [1, 0]);
    assert.equal(axes.at(y, axes.where({ target: 0, key: null, call: 0 }).x).target, 0);
  }
  const packed = maskAxes(model, under, "packed");
  assert.deepEqual([packed.rows, packed.where({ target: 2, key: null, call: 2 }).y], [4, null]);
});

test("each number that can be shown is explained, with its value for the token that is chosen", () => {
  for (const [kind, words] of METRICS) {
    const told = explanationOf({ ...bench, under: model.under("rightmost", kind), selected: { target: 0 } });
    assert.ok(told.some(({ name }) => name === words), words);
    assert.ok(told.every(({ says, formula, inputs }) => says && formula && inputs), words);
  }
  const [, weight] = explanationOf({ ...bench, under: model.under("rightmost", "weight"), selected: { target: 0 } });
  assert.equal(weight.inputs, "this token: 1.5 shares; up to 1.5 shares in this rollout");
});

test("the key to the colours says range and unit, and the words of a sign", () => {
  const upTo = (number, beyond = 0) => ({ clip: { level: 0.5, number, beyond } });
  assert.deepEqual(endsOf({ kind: "kl", signed: false, low: 0.001, unit: "nats", even: false, ...upTo(2.345) }), ["0.001", "2.3 nats"]);
  assert.deepEqual(endsOf({ kind: "terms", signed: false, low: 0, unit: "terms", even: true, ...upTo(3) }), ["0", "3 terms"]);
  assert.deepEqual(endsOf({ kind: "leaks", signed: false, low: 0, unit: "tokens", even: true, ...upTo(1) }), ["0", "1 token"]);
  assert.deepEqual(endsOf({ kind: "leaks", signed: false, low: 0, unit: "tokens", even: true, ...upTo(101057) }), ["0", "101.1k tokens"]);
  assert.deepEqual(endsOf({ kind: "beside", signed: true }), ["less", "more in B"]);
  assert.equal(beyondOf({ signed: true, unit: "nats", even: false, ...upTo(2.345, 3) }), "3 beyond ±2.3 nats");
  assert.equal(beyondOf({ signed: false, unit: "tokens", even: true, ...upTo(80, 1) }), "1 beyond 80");
  assert.equal(beyondOf({ signed: true, unit: "nats", even: false, ...upTo(2.345) }), "");
});
