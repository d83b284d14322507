import assert from "node:assert/strict";
import test from "node:test";

import { layNodes } from "../../mwviz/frontend/nodes.js";

// 0 leads to 1, 2 and 5; 1 to 3 and 4; 6 is a tree of its own.
const runs = [-1, 0, 0, 1, 1, 0, -1].map((parent) => ({ parent }));
const { nodes, columns, rows } = layNodes(runs);

test("a node stands one column after the one it leaves", () => {
  assert.deepEqual(nodes.map(({ column }) => column), [0, 1, 1, 2, 2, 1, 0]);
  assert.equal(columns, 3);
});

test("leaves have rows of their own in their order, and parents the middle of their children", () => {
  assert.deepEqual([3, 4, 2, 5, 6].map((leaf) => nodes[leaf].row), [0, 1, 2, 3, 4]);
  assert.equal(rows, 5);
  assert.equal(nodes[1].row, 0.5);
  assert.equal(nodes[0].row, (0.5 + 3) / 2);
});

test("no two nodes share a place, and no runs make an empty picture", () => {
  assert.equal(new Set(nodes.map(({ column, row }) => `${column},${row}`)).size, runs.length);
  assert.deepEqual(layNodes([]), { nodes: [], columns: 1, rows: 1 });
});
