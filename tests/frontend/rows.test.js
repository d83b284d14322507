import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { copied } from "../../mwviz/frontend/copy.js";
import { stretchesOf } from "../../mwviz/frontend/history.js";
import { completed, modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { layRows, messageStarts, roleOf, rolesIn, rowOf, shownText } from "../../mwviz/frontend/rows.js";
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
      words.push((laid.gone[i] >= 0 ? "-" : laid.added[i] ? "+" : "") + shownText(tree, laid, i, end, width));
    }
    return words.join("|");
  });

test("evicted text stands, marked, where it was in the context before", () => {
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 0), starts, 40), 40), ["one|two|three"]);
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 1), starts, 40), 40), ["one|-two|four|three|five"]);
});

test("every token has the role of its message, wherever that began", () => {
  const roles = { start: Uint32Array.of(1, 3, 5, 7), code: Uint8Array.of(2, 3 + 128, 0, 5), letters: "SUATM" };
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 7, 8].map((node) => roleOf({ roles }, node)), ["", "U", "U", "A", "A", "", "", "M", "M"]);
  assert.deepEqual([...rolesIn({ roles })].sort(), ["A", "M", "U"]);
});

test("a context beside another shows what only either of them has", () => {
  const beside = (call, against) => read(layRows(tree, stretchesOf(model, call, { against }), starts, 40), 40);
  assert.deepEqual(beside(1, 0), ["one|-two|+four|three|+five"]);
  assert.deepEqual(beside(0, 1), ["one|-four|+two|three|-five"]);
});

test("only the context is shown where nothing that left is wanted", () => {
  assert.deepEqual(read(layRows(tree, stretchesOf(model, 1, { mode: "none" }), starts, 40), 40), ["one|four|three|five"]);
});

test("tokens are copied with their ids: those marked, else the context without what left", () => {
  const laid = layRows(tree, stretchesOf(model, 1), starts, 40);
  assert.equal(copied(tree, laid, null), "place\ttoken id\ttext\n0\t1\tone\n2\t4\tfour\n3\t3\tthree\n4\t5\tfive");
  assert.equal(copied(tree, laid, [1, 1]), "place\ttoken id\ttext\n1\t2\ttwo");
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
  assert.deepEqual(["😀", "❤\ufe0f", "👍🏽", "🇩🇪", "한글", "ｱ", "שלום"].map(columns), [2, 2, 2, 2, 4, 1, 4]);
});

test("a selection is completed from any part of it, and refused where nothing is", () => {
  assert.deepEqual(completed(model, { target: 1 }), { call: 1, segment: 2, target: 1, key: null, lane: 0 });
  assert.deepEqual(completed(model, { call: 2 }), { call: 2, segment: 3, target: null, key: null, lane: 1 });
  assert.deepEqual(completed(model, { call: 0, segment: 0, target: 99 }), { call: 0, segment: 0, target: null, key: null, lane: 0 });
  assert.equal(completed(model, { call: 9 }), null);
});
