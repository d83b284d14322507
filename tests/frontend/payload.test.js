import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { decode } from "../../mwviz/frontend/payload.js";
import { lastAtMost } from "../../mwviz/frontend/sorted.js";

// Written by mwviz.payload.pack; tests/test_payload.py proves that it is what pack still writes.
const bytes = new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url)));

test("the browser reads what Python packed", () => {
  const tree = decode(bytes);
  assert.equal(tree.nodes, 9);
  assert.deepEqual(tree.lineages, ["agent-0", "agent-1"]);
  assert.deepEqual([...tree.segments.start], [0, 1, 3, 6]);
  assert.deepEqual([...tree.segments.parent], [-1, 0, 0, -1]);
  assert.deepEqual([...tree.segments.firstCall], [0, 0, 1, 2]);
  assert.deepEqual([...tree.calls.prompt], [2, 3, 2]);
  assert.deepEqual([...tree.calls.tip], [2, 5, 8]);
  assert.deepEqual([...tree.calls.lineage], [0, 0, 1]);
});

test("depth, length and exit follow from starts and parents", () => {
  const { segments } = decode(bytes);
  assert.deepEqual([...segments.length], [1, 2, 3, 3]);
  assert.deepEqual([...segments.depth], [0, 1, 1, 0]);
  assert.deepEqual([...segments.exit], [6, 3, 6, 9]);
});

test("runs name what was given, sampled and kept", () => {
  const { runs, kinds } = decode(bytes);
  const named = [...runs.kind].map((kind, i) => [runs.start[i], kinds[kind]]);
  assert.deepEqual(named, [
    [0, "given"],
    [2, "sampled"],
    [3, "given"],
    [4, "sampled_copy"],
    [5, "sampled"],
    [6, "given"],
    [8, "sampled"],
  ]);
});

test("views that are not exact have rows; exact ones are the tree", () => {
  const [rightmost, packed] = decode(bytes).views;
  assert.deepEqual([rightmost.name, rightmost.exact, rightmost.rows.length], ["rightmost", false, 1]);
  assert.deepEqual([packed.name, packed.exact, packed.rows], ["packed_mask", true, null]);
  const [{ runs, edges }] = rightmost.rows;
  assert.deepEqual([...runs.node], [0, 3]);
  assert.deepEqual([...runs.until], [4, 4]);
  assert.deepEqual(edges.map((column) => [...column]), [[1], [0], [2]]);
});

test("targets follow from prompts and tips", () => {
  const { targets } = decode(bytes);
  assert.deepEqual([...targets.first], [0, 1, 2, 3]);
  assert.equal(targets.count, 3);
});

test("text is joined from bytes: split characters and tokens of more than 254 bytes survive", () => {
  const { text } = decode(bytes);
  assert.equal(text(0, 3), "onetwothree");
  assert.equal(text(6, 8), "é");
  assert.equal(text(6, 7), "\ufffd");
  assert.equal(text(8, 9), "x".repeat(300));
});

test("a payload at an odd offset of its buffer is read all the same", () => {
  const shifted = new Uint8Array(bytes.length + 3);
  shifted.set(bytes, 3);
  assert.deepEqual(decode(shifted.subarray(3)).segments, decode(bytes).segments);
});

test("another version and other bytes are refused by name", () => {
  const newer = bytes.slice();
  newer[4] = 9;
  assert.throws(() => decode(newer), /version 9, this page reads 6/);
  assert.throws(() => decode(new Uint8Array(4)), /not an mwviz payload/);
});

test("lastAtMost finds the piece that holds a value", () => {
  const found = [-1, 0, 4, 5, 99].map((value) => lastAtMost([0, 5, 7], value));
  assert.deepEqual(found, [-1, 0, 0, 1, 2]);
});
