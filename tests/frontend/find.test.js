import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { find, gone, nextMatch } from "../../mwviz/frontend/find.js";
import { EXAMPLES, number, understand } from "../../mwviz/frontend/goto.js";
import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";

// Contexts: one two three | one four three five (three kept) | é xxx... (of another agent).
const tree = decode(new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url))));
const model = modelOf(tree);
const told = (query) => find(tree, query).matches.map(({ ranks, places }) => [ranks, places]);

test("a match is told once, with every place that shows it", () => {
  assert.deepEqual(told("three"), [[[2], [2, 4]]]);
  assert.deepEqual(told("THREE"), told("three"));
  assert.deepEqual(told("nowhere"), []);
  assert.deepEqual(told(""), []);
});

test("matches run over tokens and over the borders of segments", () => {
  assert.deepEqual(told("netw"), [[[0, 1], [1]]]);
  assert.deepEqual(told("nefour"), [[[0, 3], [3]]]);
  assert.deepEqual(told("twofour"), []); // neighbours in the payload, never in a context
});

test("text of several bytes is found where tokens cut it, in either case", () => {
  assert.deepEqual(told("É"), [[[5, 6], [7]]]);
  assert.deepEqual(told("éx")[0], [[5, 6, 7], [8]]);
});

test("what no last context holds is gone", () => {
  const { matches } = find(tree, "o");
  assert.deepEqual(matches.map(({ ranks }) => ranks[0]), [0, 1, 3]);
  assert.deepEqual(gone(tree, matches), [false, true, false]);
});

test("every match agrees with a plain search of every context", () => {
  const contexts = [[0, 1, 2], [0, 3, 4, 5], [6, 7, 8]].map((nodes) => nodes.map((node) => tree.text(node, node + 1)).join(""));
  for (const query of ["e", "o", "onet", "refi", "x".repeat(299), "hree"]) {
    const plain = contexts.some((context) => context.includes(query));
    assert.equal(told(query).length > 0, plain, query);
  }
});

test("next and previous go round", () => {
  const matches = [2, 5, 9].map((rank) => ({ ranks: [rank] }));
  assert.deepEqual([nextMatch(matches, 5, 1), nextMatch(matches, 9, 1), nextMatch(matches, 5, -1), nextMatch(matches, 2, -1), nextMatch(matches, -1, 1)], [2, 0, 0, 2, 0]);
  assert.equal(nextMatch([], 0, 1), -1);
});

test("the go-to box understands calls, tokens, segments and evictions", () => {
  const where = (text) => understand(text, model);
  assert.deepEqual(where("call 1"), { mark: { call: 1 } });
  assert.deepEqual(where("2"), { mark: { call: 2 } });
  assert.deepEqual(where("tok 2"), { mark: { target: 2 } });
  assert.deepEqual(where("Call 1 tok 0"), { mark: { target: 1 } });
  assert.deepEqual(where("seg 2"), { mark: { call: 1, segment: 2 } });
  assert.deepEqual(where("q 0-2 k 1-5"), { range: { y0: 0, y1: 2, x0: 1, x1: 5 } });
  assert.deepEqual(where("k 1–99k"), { range: { y0: null, y1: null, x0: 1, x1: 8 } });
  assert.deepEqual(["81,204", "44k", "1.5M"].map(number), [81204, 44000, 1500000]);
});

test("the go-to box says what there is where nothing is", () => {
  const said = (text) => understand(text, model).error;
  assert.equal(said("call 3"), "There are 3 calls, 0 to 2");
  assert.equal(said("call 1 tok 9"), "There are 1 sampled tokens in call 1, 0 to 0");
  assert.equal(said("ev 1"), "There are no evictions");
  assert.match(said("q 5-2"), /empty/);
  assert.match(said("q five"), /two numbers/);
  assert.match(said("<b>"), new RegExp(`For example: ${EXAMPLES.slice(0, 7)}`));
});
