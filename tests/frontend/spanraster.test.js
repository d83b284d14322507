import assert from "node:assert/strict";
import test from "node:test";

import { paintSpans } from "../../mwviz/frontend/spanraster.js";

// One segment of 8 tokens: 4 given, 2 sampled, 2 kept (hatched).
const tree = {
  segments: { start: [0], length: [8] },
  runs: { start: [0, 4, 6], kind: [0, 1, 2] },
};
const inks = [{ base: [10, 0, 0] }, { base: [20, 0, 0] }, { base: [30, 0, 0], shade: [40, 0, 0] }];
const paint = (box, width, height, ratio = 1) => {
  const image = { width, height, data: new Uint8ClampedArray(width * height * 4) };
  paintSpans({ tree, spans: [{ segment: 0 }], boxOf: () => box, inks, seam: [99, 0, 0], background: [255, 255, 255], ratio }, image);
  return (x, y) => [...image.data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4)];
};

test("runs stand from the bottom up in their colours, kept ones hatched", () => {
  const at = paint({ left: 1, top: 0, width: 4, height: 16 }, 8, 16);
  assert.deepEqual(at(0, 9), [0, 0, 0, 0]);
  assert.deepEqual(at(1, 15), [10, 0, 0, 255]);
  assert.deepEqual(at(4, 8), [10, 0, 0, 255]);
  assert.deepEqual(at(4, 7), [20, 0, 0, 255]);
  assert.deepEqual([at(3, 3), at(4, 3)], [[40, 0, 0, 255], [30, 0, 0, 255]]);
  assert.deepEqual(at(2, 0), [99, 0, 0, 255]);
  assert.deepEqual(at(5, 8), [0, 0, 0, 0]);
});

test("strips thinner than a pixel mix by their area", () => {
  const at = paint({ left: 0, top: 0, width: 1, height: 1 }, 1, 1);
  const [red, green] = at(0, 0);
  // 4/8 of one colour over white, then 2/8 and 2/8 of the others over that.
  assert.ok(Math.abs(green - 255 * 0.5 * 0.75 * 0.75) < 2);
  assert.ok(red > green);
});

test("what lies outside the image is left out", () => {
  const at = paint({ left: -3, top: -4, width: 20, height: 16 }, 4, 8, 2);
  assert.deepEqual(at(3, 7), [20, 0, 0, 255]);
});
