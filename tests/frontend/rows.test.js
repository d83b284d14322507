import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { completed, modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { layRows, messageStarts, rowOf, shownText, stretchesOf } from "../../mwviz/frontend/rows.js";
import { columns, glyphs } from "../../mwviz/frontend/text.js";

const tree = decode(new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url))));
// The fixture names no junctions; call 1 replaces token two and keeps token three.
tree.junctions = [{ call: 1, kind: "rewrite", evicts: true, depth: 1, evicted: 1 }];
const model = modelOf(tree);
const starts = messageStarts(tree);
const read = (laid, width) =>
  [...laid.first].map((from, row) => {
    const words = [];
    for (let i = from; i < (laid.first[row + 1] ?? laid.size); i++) {
      if (laid.joined[i]) continue;
      let end = i + 1;
      while (laid.joined[end]) end++;
      words.push((laid.gone[i] ? "-" : "") + shownText(tree, laid, i, end, width));
    }
    return words.join("|");
  });

test("evicted text stands, marked, where it was in the context before", () => {
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 0), starts, 40), 40), ["one|two|three"]);
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 1), starts, 40), 40), ["one|-two|four|three|five"]);
});

test("rows are no wider than their columns, and bytes of one character stay together", () => {
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 0), starts, 8), 8), ["one|two", "three"]);
  const laid = layRows(tree, stretchesOf(model, 2), starts, 8);
  assert.deepEqual(read(laid, 8), ["é", "xxxxxxx…"]);
  assert.deepEqual([...laid.joined], [0, 1, 0]);
  assert.deepEqual([0, 1, 2].map((i) => rowOf(laid, i)), [0, 0, 1]);
});

test("spaces that could be missed are dots; wide characters take two columns", () => {
  assert.equal(glyphs("a  b c\n"), "a··b c↵");
  assert.deepEqual(["ab", "検索", "é", "e\u0301", "⟨202E⟩"].map(columns), [2, 4, 1, 1, 6]);
});

test("a selection is completed from any part of it, and refused where nothing is", () => {
  assert.deepEqual(completed(model, { target: 1 }), { call: 1, segment: 2, target: 1, key: null, lane: 0 });
  assert.deepEqual(completed(model, { call: 2 }), { call: 2, segment: 3, target: null, key: null, lane: 1 });
  assert.deepEqual(completed(model, { call: 0, segment: 0, target: 99 }), { call: 0, segment: 0, target: null, key: null, lane: 0 });
  assert.equal(completed(model, { call: 9 }), null);
});
