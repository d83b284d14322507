import assert from "node:assert/strict";
import test from "node:test";

import { AGREE, ERASED, FUTURE, NAMES, STALE, UNTRAINED, classAt, pairsByCall } from "../../mwviz/frontend/classes.js";
import { countRows, csvOf, windowCounts } from "../../mwviz/frontend/csv.js";

// Two calls: targets 0-3 at places 10-13; 4-9 at 30-35 (not trained) and 10-11 at 50-51.
const judged = {
  target: Uint32Array.of(0, 4, 10),
  count: Uint32Array.of(4, 6, 2),
  own: Uint32Array.of(10, 30, 50),
  call: Uint32Array.of(0, 1, 1),
  trained: Uint8Array.of(1, 0, 1),
  first: Uint32Array.of(0, 2, 3, 6),
  from: Uint32Array.of(0, 20, 0, 0, 7, 52),
  to: Uint32Array.of(8, 23, 9, 4, 30, 60),
  kind: Uint8Array.of(AGREE, FUTURE, UNTRAINED, AGREE, ERASED, STALE),
};

test("a window's counts are those of its cells, call by call", () => {
  for (const window of [{ x0: 0, x1: 64, y0: 0, y1: 12 }, { x0: 5, x1: 33, y0: 2, y1: 11 }, { x0: 50, x1: 51, y0: 10, y1: 11 }, { x0: 12, x1: 12, y0: 3, y1: 3 }]) {
    const plain = new Map();
    for (let y = window.y0; y < window.y1; y++) {
      const call = y < 4 ? 0 : 1;
      if (!plain.has(call)) plain.set(call, new Float64Array(NAMES.length));
      for (let x = window.x0; x < window.x1; x++) plain.get(call)[classAt(judged, y, x)]++;
    }
    assert.deepEqual(windowCounts(judged, window), [...plain].map(([call, counts]) => ({ call, counts })));
  }
});

test("pairs of a call are those of its trained targets, its own earlier tokens among them", () => {
  const [first, second] = pairsByCall(judged, 2);
  assert.equal(first[AGREE], 4 * 8 + 6);
  assert.equal(first[FUTURE], 4 * 3);
  assert.equal(second[AGREE], 2 * 4 + 1);
  assert.equal(second[UNTRAINED], 0);
});

test("rows name the window and leave out classes that do not occur", () => {
  const rows = countRows(judged, { x0: 20, x1: 23, y0: 0, y1: 4 }, { view: "rightmost", order: "time" });
  assert.deepEqual(rows.slice(1), [["rightmost", "time", 0, 4, 20, 23, 0, "future", 12]]);
});

test("text cannot leave its cell or become a formula", () => {
  assert.equal(csvOf([["a,b", 'say "x"', 1.5], ["=1+1", "@x", "two\nlines"]]), '"a,b","say ""x""",1.5\r\n\'=1+1,\'@x,"two\nlines"\r\n');
});
