import assert from "node:assert/strict";
import test from "node:test";

import { effectOf, inWords, numbersOf, termsOf } from "../../mwviz/frontend/formulas.js";

const TOLD = {
  view: "rightmost",
  n: { true: -1, view: -4, recorded: -1.5, rank_true: 0, rank_view: 1234, entropy_true: 2, entropy_view: 3.5, floor: 1e-5 },
};

test("a drift says how much likelier it makes the token", () => {
  assert.equal(inWords(-Math.log(20)), "20 times less likely");
  assert.equal(inWords(Math.log(1.5)), "50 % more likely");
  assert.equal(inWords(0.001), "as likely");
  assert.equal(inWords(-50), "e^50 times less likely");
});

test("every known number comes with its formula and inputs", () => {
  const made = Object.fromEntries(numbersOf(TOLD).map((one) => [one.name, one]));
  assert.equal(made.drift.shown, "−3");
  assert.match(made.drift.inputs, /^−4 − \(−1\) = −3 nats: rightmost makes the token 20\.1 times less likely/);
  assert.match(made["log p recorded"].inputs, /= −2\.50 nats/);
  assert.equal(made["rank rightmost"].shown, "1,234");
  assert.equal(made.entropy.shown, "2 → 3.50");
});

test("what the last eviction cost the token is a number too, and noise is told as none", () => {
  const told = (change) => numbersOf({ ...TOLD, whatif: [10, 1096, change, 1e-5] }).at(-1);
  assert.equal(told(Math.log(3)).name, "if nothing had left before call 10");
  assert.equal(told(Math.log(3)).shown, "+1.10");
  assert.match(told(Math.log(3)).formula, /1,096 tokens put back that left before call 10/);
  assert.match(told(Math.log(3)).inputs, /with that text the token is 3 times more likely/);
  assert.equal(told(0).shown, "no change");
  assert.match(told(0).inputs, /No more than noise/);
});

test("the numbers of a token carry their unit and what noise alone reaches", () => {
  assert.match(termsOf(TOLD), /^In nats .*; noise alone reaches 0\.00001\. Click/);
  assert.equal(termsOf({ n: { recorded: -1 } }), "");
  assert.equal(effectOf(-24.04, 1e-5), "−24 nats");
  assert.equal(effectOf(0.93, undefined), "+0.93 nats");
  assert.equal(effectOf(-1e-5, 1e-5), "no more than noise");
});

test("what is not known is left out", () => {
  const names = numbersOf({ view: "replay", n: { recorded: -1, true: -2, view: null } }).map((one) => one.name);
  assert.deepEqual(names, ["log p true", "log p recorded"]);
});
