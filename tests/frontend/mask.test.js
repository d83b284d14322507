import assert from "node:assert/strict";
import test from "node:test";

import { AGREE, ERASED, FUTURE, NONE, SELF, STALE, UNTRAINED, classAt, leakCounts } from "../../mwviz/frontend/classes.js";
import { highestOf } from "../../mwviz/frontend/highest.js";
import { SEVERITY, raster, rowShares, worstIn } from "../../mwviz/frontend/pixels.js";

// Three groups: targets 0-3 at places 10-13, 4-9 at 30-35 (not trained), 10-11 at 50-51.
const judged = {
  target: Uint32Array.of(0, 4, 10),
  count: Uint32Array.of(4, 6, 2),
  own: Uint32Array.of(10, 30, 50),
  trained: Uint8Array.of(1, 0, 1),
  first: Uint32Array.of(0, 2, 3, 6),
  from: Uint32Array.of(0, 20, 0, 0, 7, 52),
  to: Uint32Array.of(8, 23, 9, 4, 30, 60),
  kind: Uint8Array.of(AGREE, FUTURE, UNTRAINED, AGREE, ERASED, STALE),
};
const KEYS = 64;
const TARGETS = 12;
const colours = Array.from({ length: 10 }, (_, kind) => ({ base: [kind * 20, 0, 0], shade: [kind * 20, 255, 0] }));

function draw(view, width, height, mode) {
  const image = { width, height, data: new Uint8ClampedArray(width * height * 4) };
  const worst = raster(judged, view, image, { overlay: "difference", mode, colours, step: 6 });
  return { image, worst };
}

test("at one pixel a token every pixel is the class of its cell", () => {
  for (const mode of ["mix", "worst"]) {
    const { image, worst } = draw({ x0: 3, x1: 63, y0: 0, y1: TARGETS }, 60, TARGETS, mode);
    for (let y = 0; y < TARGETS; y++) {
      for (let x = 0; x < 60; x++) {
        const kind = classAt(judged, y, x + 3);
        assert.equal(worst[y * 60 + x], kind, `${y}, ${x}`);
        assert.equal(image.data[(y * 60 + x) * 4], kind * 20);
      }
    }
  }
});

test("at a distance a pixel shows the worst class in it, never a mean that hides it", () => {
  for (const [width, height] of [[16, 4], [7, 5], [13, 3]]) {
    const { worst } = draw({ x0: 0, x1: KEYS, y0: 0, y1: TARGETS }, width, height, "worst");
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const found = new Set();
        for (let t = Math.floor((y * TARGETS) / height); t < ((y + 1) * TARGETS) / height; t++) {
          for (let k = Math.floor((x * KEYS) / width); k < ((x + 1) * KEYS) / width; k++) found.add(classAt(judged, t, k));
        }
        const wrong = SEVERITY.find((kind) => found.has(kind) && [FUTURE, ERASED, STALE].includes(kind));
        if (wrong !== undefined) assert.equal(worst[y * width + x], wrong);
      }
    }
  }
});

test("shares of a pixel row add up the area of every class", () => {
  const width = 9;
  const view = { x0: 2.5, x1: 61, y0: 0, y1: TARGETS };
  const { part, step } = rowShares(judged, 1.25, 10.5, view, width);
  const sums = new Float64Array(10);
  for (let kind = 0; kind < 10; kind++) {
    let running = 0;
    for (let x = 0; x < width; x++) {
      running += step[kind * (width + 1) + x];
      sums[kind] += part[kind * width + x] + running;
    }
  }
  const exact = new Float64Array(10);
  for (let t = 1; t < 11; t++) {
    const weight = (Math.min(t + 1, 10.5) - Math.max(t, 1.25)) / 9.25;
    for (let k = 2; k < 61; k++) exact[classAt(judged, t, k)] += weight * (Math.min(k + 1, 61) - Math.max(k, 2.5));
  }
  const scale = width / (view.x1 - view.x0);
  for (const kind of [AGREE, FUTURE, ERASED, STALE, SELF, UNTRAINED]) {
    assert.ok(Math.abs(sums[kind] - exact[kind] * scale) < 1e-9, `class ${kind}`);
  }
});

test("each pixel of a row has the area of every class in it, however many targets share it", () => {
  for (const [x0, x1, width, from, to] of [[2.5, 61, 9, 1.25, 10.5], [0, 64, 3, 0, 12], [11.5, 34.25, 5, 0.5, 8.75], [9, 53, 40, 2, 12], [31, 33, 7, 4, 10]]) {
    const { part, step } = rowShares(judged, from, to, { x0, x1 }, width);
    const size = (x1 - x0) / width;
    for (let kind = 0; kind < 10; kind++) {
      if (kind === NONE) continue;
      for (let x = 0, running = 0; x < width; x++) {
        running += step[kind * (width + 1) + x];
        let area = 0;
        for (let t = Math.floor(from); t < to; t++) {
          const tall = Math.min(t + 1, to) - Math.max(t, from);
          for (let k = Math.floor(x0 + x * size); k < x0 + (x + 1) * size; k++) {
            const wide = Math.min(k + 1, x0 + (x + 1) * size) - Math.max(k, x0 + x * size);
            if (classAt(judged, t, k) === kind) area += (tall * wide) / ((to - from) * size);
          }
        }
        const at = part[kind * width + x] + running;
        assert.ok(Math.abs(at - area) < 1e-9, `class ${kind}, pixel ${x} of ${width}: ${at}, not ${area}`);
      }
    }
  }
});

test("the highest of a stretch is the highest of its numbers", () => {
  for (const count of [0, 1, 2, 7, 64, 100]) {
    const numbers = Array.from({ length: count }, (_, i) => (i * 37) % 101);
    const highest = highestOf(count, (i) => numbers[i]);
    for (let from = 0; from <= count; from++) {
      for (let to = 0; to <= count; to++) assert.equal(highest(from, to), Math.max(0, ...numbers.slice(from, to)), `${from} to ${to} of ${count}`);
    }
  }
});

test("the readout of a pixel names its worst cell", () => {
  assert.deepEqual(worstIn(judged, 0, 12, 0, 64), { target: 0, key: 20, kind: FUTURE });
  assert.equal(worstIn(judged, 10, 11, 8, 9).kind, ERASED);
  const cell = worstIn(judged, 10, 12, 44, 64);
  assert.equal(cell.kind, STALE);
  assert.equal(classAt(judged, cell.target, cell.key), cell.kind);
});

test("overlays fold classes into what was seen", () => {
  const kinds = (overlay) => {
    const image = { width: KEYS, height: 1, data: new Uint8ClampedArray(KEYS * 4) };
    const view = { x0: 0, x1: KEYS, y0: 10, y1: 11 };
    return raster(judged, view, image, { overlay, mode: "mix", colours, step: 6 });
  };
  const [view, exact] = [kinds("view"), kinds("exact")];
  assert.deepEqual([view[8], view[55], view[50]], [NONE, AGREE, SELF]);
  assert.deepEqual([exact[8], exact[55], exact[50]], [AGREE, NONE, SELF]);
});

test("leak counts are the sums of rows and columns", () => {
  const { byTarget, byKey } = leakCounts(judged, TARGETS, KEYS);
  assert.deepEqual([...byTarget], [3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 31, 31]);
  assert.deepEqual([byKey[6], byKey[7], byKey[21], byKey[59], byKey[60]], [0, 2, 6, 2, 0]);
});
