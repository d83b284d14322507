import assert from "node:assert/strict";
import test from "node:test";

import { layLanes } from "../../mwviz/frontend/lanes.js";
import { tableOf } from "../../mwviz/frontend/tables.js";

// One token a node. Calls: 0: a | 1: ab | 2: abc | 3: ad (drops b, c) | 4: ad again (retry) | 5: ade |
// 6: af (drops d, e) | 7: a helper's x.
const tree = {
  segments: {
    start: [0, 1, 2, 3, 4, 5, 6, 7],
    parent: [-1, 0, 1, 0, 3, 0, -1, 0],
    firstCall: [0, 1, 2, 3, 5, 6, 7, 4],
    depth: [0, 1, 2, 1, 2, 1, 0, 1],
    length: [1, 1, 1, 1, 1, 1, 1, 1],
  },
  calls: { tip: [0, 1, 2, 3, 7, 4, 5, 6], lineage: [0, 0, 0, 0, 0, 0, 0, 1], prompt: [1, 1, 1, 1, 1, 1, 1, 1] },
  junctions: [
    { call: 3, kind: "drop", evicts: true, depth: 1 },
    { call: 4, kind: "retry", evicts: false, depth: 1 },
    { call: 6, kind: "summary", evicts: true, depth: 1 },
  ],
};
const previous = [-1, 0, 1, 2, 3, 4, 5, -1];
const { runs, lanes, runOf } = layLanes({ tree, previous });
const told = runs.map(({ calls, lane, parent, goesOn, kind, rejected }) => [calls, lane, parent, goesOn, kind, rejected]);

test("calls that nothing parts are one run; where branches leave, runs part", () => {
  assert.deepEqual(runs.map(({ calls }) => calls), [[0], [1, 2], [3], [4, 5], [6], [7]]);
  assert.deepEqual([0, 2, 5, 7].map(runOf), [0, 1, 3, 5]);
});

test("a branch hangs on the run that wrote the last token it keeps", () => {
  assert.deepEqual(told.map(([, , parent, goesOn]) => [parent, goesOn]), [[-1, false], [0, true], [0, false], [0, false], [0, false], [-1, false]]);
});

test("completions that were sampled again are marked", () => {
  assert.deepEqual(told.map((run) => run[5]), [false, false, true, false, false, false]);
});

test("no two runs of a lane touch, and lanes are used again", () => {
  for (const [i, run] of runs.entries()) {
    for (const other of runs.slice(0, i)) if (other.lane === run.lane && !run.goesOn) assert.ok(other.x < run.x - 1);
  }
  assert.equal(lanes, 3);
  assert.equal(runs[0].lane, runs[1].lane);
});

test("every call is in exactly one run", () => {
  assert.deepEqual(runs.flatMap(({ calls }) => calls).sort((a, b) => a - b), [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(layLanes({ tree: { ...tree, junctions: [], calls: { tip: [], lineage: [] } }, previous: [] }).runs, []);
});

const firsts = (calls) => Uint32Array.from({ length: calls + 1 }, (_, call) => call);
const asTable = (one, before, share) => tableOf("timeline", {
  shape: "tree",
  model: { tree: { ...one, lineages: ["main", "helper"], targets: { first: firsts(before.length) } }, previous: before },
  under: { callShare: share },
});

test("the tree as a table: what leaves a branch stands below it, what goes on beside it", () => {
  const wide = { ...tree, junctions: tree.junctions.map((junction) => ({ ...junction, evicted: 2 })) };
  const { count, row, mark, columns } = asTable(wide, previous, [0, 0, 1, 0, 0, 0, 0, 0]);
  const rows = Array.from({ length: count }, (_, i) => row(i));
  assert.deepEqual(rows.map(([branch]) => branch), [
    "call 0",
    "└ call 3 (thrown away)",
    "└ calls 4–5",
    "└ call 6",
    "calls 1–2",
    "call 7",
  ]);
  assert.deepEqual(rows[1].slice(1), [1, 1, "main", "drop", 1, 2, 1, 0]);
  assert.deepEqual(rows[4].slice(1), [0, 2, "main", "goes on", "", "", 2, 50]);
  assert.equal(rows[5][3], "helper");
  assert.deepEqual([columns.length, mark(2)], [rows[0].length, { call: 4 }]);
});

test("a hundred evictions, each out of the branch before, stay readable", () => {
  const calls = Array.from({ length: 100 }, (_, call) => call);
  const chain = {
    segments: {
      start: calls.flatMap((call) => [2 * call, 2 * call + 1]),
      parent: calls.flatMap((call) => [call ? 2 * call - 2 : -1, 2 * call]),
      firstCall: calls.flatMap((call) => [call, call]),
      depth: calls.flatMap((call) => [call, call + 1]),
      length: calls.flatMap(() => [1, 1]),
    },
    calls: { tip: calls.map((call) => 2 * call + 1), lineage: calls.map(() => 0), prompt: calls.map((call) => call + 1) },
    junctions: calls.slice(1).map((call) => ({ call, kind: "drop", evicts: true, depth: call, evicted: 1 })),
  };
  const { count, row } = asTable(chain, calls.map((call) => call - 1), calls.map(() => 0));
  assert.equal(count, 100);
  assert.deepEqual([row(0)[0], row(2)[0], row(99)[1]], ["call 0", "│ └ call 2", 99]);
  assert.ok(Array.from({ length: count }, (_, i) => row(i)[0].length).every((wide) => wide < 40));
  assert.match(row(99)[0], /^… (│ )+└ call 99$/);
});
