import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { explanationOf } from "../../mwviz/frontend/explain.js";
import { askForNumbers, endNumbers, leaveNumbers, scoredOf } from "../../mwviz/frontend/fetched.js";
import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { tableOf } from "../../mwviz/frontend/tables.js";

const bytes = readFileSync(new URL("kept_tail.payload", import.meta.url));
const told = (...codes) => ({ floor: 0.01, scale: 1, codes: Uint8Array.from(codes) });

// Two scored views, of which the payload holds the drift of one; no calls recorded a log-probability.
function scored() {
  const tree = decode(new Uint8Array(bytes));
  tree.comparisons = ["rightmost", "packed_mask"].map((view) => ({ view, against: "logit_tree", model: "m" }));
  tree.known = new Set(["rightmost:drift", "rightmost:change", "packed_mask:drift", "logit_tree:logprob"]);
  tree.numbers = new Map([["rightmost:drift", told(255, 128, 1)]]);
  return modelOf(tree);
}

test("a number that is known but not here is drawn as nothing until it comes", () => {
  const model = scored();
  const waits = model.under("packed_mask", "drift");
  assert.deepEqual([waits.metric.kind, waits.metric.awaited, waits.missing], ["drift", true, undefined]);
  assert.deepEqual([waits.metric.value(0), waits.metric.level(0), waits.metric.worst], [null, 0, []]);
  assert.equal(waits.number("drift"), null);
  assert.ok(waits.known.includes("drift") && waits.known.includes("view"));
  assert.ok(!waits.known.includes("change"), "of this view it is not known");
  model.supply([], [["packed_mask:drift", told(1, 0, 255)]]);
  const came = model.under("packed_mask", "drift");
  assert.deepEqual([came.metric.awaited, came.metric.value(0), came.metric.value(1)], [undefined, -1, null]);
  assert.deepEqual(came.metric.worst, [0, 2]);
});

test("what is lacking is named, once, as far as the server has it", () => {
  const { lacking } = scored().under("rightmost", "view");
  assert.deepEqual(lacking(["drift"]), []);
  assert.deepEqual(lacking(["view", "true", "size", "gap", "kl", "leaks"]), ["logit_tree:logprob"]);
  assert.deepEqual(lacking(["change"]), ["rightmost:change"]);
});

test("codes of another rollout are not taken", () => {
  const model = scored();
  model.supply([{ kind: "kl", ...told(1, 2) }], [["packed_mask:drift", told(1, 2)]]);
  assert.equal(model.under("packed_mask", "drift").metric.awaited, true);
  assert.ok(model.under("packed_mask", "kl").missing);
});

test("a table says which of its numbers are still to come, and an explanation too", () => {
  const model = scored();
  const bench = { model, under: model.under("rightmost", "drift"), selected: null, hover: null, shownCall: 1, metric: "drift" };
  const waiting = tableOf("drift", bench);
  assert.equal(waiting.awaited, true);
  assert.equal(waiting.row(0)[waiting.columns.indexOf("change of entropy")], "…");
  assert.equal(waiting.row(0)[waiting.columns.indexOf("drift")], 1);
  model.supply([], [["rightmost:change", told(1, 1, 1)], ["logit_tree:logprob", told(1, 1, 1)]]);
  bench.under = model.under("rightmost", "drift");
  const whole = tableOf("drift", bench);
  assert.equal(whole.awaited, false);
  assert.equal(whole.row(0)[whole.columns.indexOf("change of entropy")], -1);
  const explained = explanationOf({ ...bench, under: scored().under("rightmost", "change") });
  assert.match(explained.find(({ name }) => name === "change of entropy").inputs, /being loaded/);
});

test("pictures drawn while a wish waits do not put it off", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = Object.assign(new EventTarget(), {});
  const asked = [];
  leaveNumbers({ numbers: [], of: "a", scored: {} }, (wish) => asked.push(wish));
  for (let frame = 0; frame < 10; frame++) {
    askForNumbers("a", ["x"]);
    context.mock.timers.tick(16);
  }
  assert.deepEqual(asked, [{ of: "a", names: ["x"] }]);
});

test("a question whose answer was lost is asked again, ever later, until it comes", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = Object.assign(new EventTarget(), {});
  let asked = 0;
  const ask = () => asked++;
  const leave = (scored) => leaveNumbers({ numbers: [], of: "a", scored }, ask);
  leave({});
  askForNumbers("a", ["x", "y"]);
  context.mock.timers.tick(60);
  assert.equal(asked, 1);
  context.mock.timers.tick(8_000);
  assert.equal(asked, 2);
  leave({ x: told(1) });
  context.mock.timers.tick(15_999);
  assert.equal(asked, 2, "later than the first time");
  context.mock.timers.tick(1);
  assert.equal(asked, 3, "half an answer is none");
  leave({ y: told(1) });
  context.mock.timers.tick(1_000_000);
  assert.equal(asked, 3);
});

test("a question that was replaced is not asked again", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = Object.assign(new EventTarget(), {});
  const asked = [];
  const ask = ({ names }) => asked.push(names.join());
  leaveNumbers({ numbers: [], of: "a", scored: {} }, ask);
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1_000);
  askForNumbers("a", ["y"]);
  context.mock.timers.tick(1_000);
  leaveNumbers({ numbers: [], of: "a", scored: { y: told(1) } }, ask);
  context.mock.timers.tick(1_000_000);
  assert.deepEqual(asked, ["x", "y"]);
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1_000);
  endNumbers(ask);
  context.mock.timers.tick(1_000_000);
  assert.deepEqual(asked, ["x", "y", "x"], "nobody is there to ask");
});

test("a question that nobody waits for any more is not asked again", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = Object.assign(new EventTarget(), {});
  let asked = 0;
  const ask = () => asked++;
  leaveNumbers({ numbers: [], of: "a", scored: {} }, ask);
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1_000);
  askForNumbers("a", []);
  context.mock.timers.tick(1_000_000);
  assert.equal(asked, 1, "what is shown now lacks nothing");
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1_000);
  assert.equal(asked, 2, "it is shown again and still lacks it");
  const { mock } = context.mock.method(globalThis, "setTimeout");
  endNumbers(ask);
  context.mock.timers.tick(1_000_000);
  assert.equal(mock.callCount(), 0, "no clock runs on");
});

test("what is lacking is asked for once, and again once another payload or page came", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = Object.assign(new EventTarget(), {});
  const asked = [];
  const ask = (wish) => asked.push(wish);
  const leave = (of, scored, by = ask) => leaveNumbers({ numbers: [], of, scored }, by);
  askForNumbers("a", ["x"]);
  leave("a", {});
  askForNumbers("a", ["w"]);
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1000);
  assert.deepEqual(asked, [{ of: "a", names: ["x"] }], "a later wish replaces an earlier one");
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1000);
  assert.equal(asked.length, 1);
  leave("a", { x: told(1) });
  leave("a", { y: told(2) });
  assert.deepEqual(scoredOf("a").map(([name]) => name), ["x", "y"]);
  askForNumbers("a", ["z"]);
  askForNumbers("a", []);
  context.mock.timers.tick(1000);
  assert.equal(asked.length, 1, "nothing is lacking any more");
  leave("b", {});
  assert.deepEqual([scoredOf("a"), scoredOf("b")], [[], []]);
  leave("a", {});
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1000);
  assert.equal(asked.length, 2);
  const other = (wish) => asked.push({ ...wish, other: true });
  leave("a", {}, other);
  endNumbers(ask);
  askForNumbers("a", ["x"]);
  context.mock.timers.tick(1000);
  assert.deepEqual(asked[2], { of: "a", names: ["x"], other: true });
  endNumbers(other);
  askForNumbers("a", ["y"]);
  context.mock.timers.tick(1000);
  assert.equal(asked.length, 3, "nobody is there to ask");
});
