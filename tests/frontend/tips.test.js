import assert from "node:assert/strict";
import { test } from "node:test";

import { drift } from "../../mwviz/frontend/tips.js";

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
