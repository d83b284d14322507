import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { NAMES } from "../../mwviz/frontend/classes.js";
import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { counted } from "../../mwviz/frontend/text.js";
import { NOTHING, describe, drift, maskCaption, wronglyTold } from "../../mwviz/frontend/tips.js";

const under = (nats, own) => ({
  view: { name: "rightmost" },
  trained: () => true,
  number: (name) => ({ value: () => (name === "drift" ? nats : own), floor: 1e-5 }),
});

test("a probability that one byte tells has one digit, near one two", () => {
  assert.match(drift(under(-3.91, Math.log(0.028)), 0), /probability of about 3 %, here about 0\.06 %\.$/);
  assert.match(drift(under(-1, Math.log(0.96)), 0), /probability of about 96 %, here about 40 %\.$/);
  assert.match(drift(under(0, Math.log(0.999)), 0), /probability of about 99\.9 %\.$/);
  assert.match(drift(under(-1, Math.log(1e-6)), 0), /probability of under 0\.01 %, here under 0\.01 %\.$/);
});

test("one is told as one, several as several, and the first says of what", () => {
  const having = (...told) => Object.fromEntries(NAMES.map((name, kind) => [kind, Object.fromEntries(told)[name] ?? 0]));
  assert.deepEqual(wronglyTold(having(["future", 1], ["erased", 1])), ["1 token sees the future", "1 misses what left later"]);
  assert.deepEqual(wronglyTold(having(["future", 1200], ["lost", 2])), ["1,200 tokens see the future", "2 lose text"]);
  assert.deepEqual(wronglyTold(having(["erased", 3])), ["3 tokens miss what left later"]);
  assert.deepEqual(wronglyTold(having()), []);
  assert.equal(counted(1, "token"), "1 token");
  assert.equal(counted(0, "branch", "branches"), "0 branches");
});

test("an empty mask says why it is empty", () => {
  const bench = { overlay: "difference", order: "time", selected: null, under: { view: { name: "replay" }, having: {} } };
  assert.equal(maskCaption({ ...bench, model: { targets: 0 } }), NOTHING);
  assert.match(maskCaption({ ...bench, model: { targets: 1 } }), /^Under replay every trained token sees exactly/);
});

test("a pair is told with the numbers by which Go to finds it", () => {
  const model = modelOf(decode(new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url)))));
  const under = model.under("rightmost", "drift");
  const { title, facts } = describe({ model, under }, { target: 2, key: 1 });
  assert.match(title, /^call \d+, token \d+ “.*”  ⟵  “.*”, (sampled|first sent) in call \d+$/);
  assert.match(facts, /\. q 2, k 1\.$/);
});
