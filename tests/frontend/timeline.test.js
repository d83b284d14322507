import assert from "node:assert/strict";
import test from "node:test";

import { drawAxes } from "../../mwviz/frontend/axes.js";
import { projection } from "../../mwviz/frontend/draw.js";
import { act } from "../../mwviz/frontend/keys.js";
import { callAt, contextOf, fit, highFor, hit, layOut, pan, ticks, zoom } from "../../mwviz/frontend/timeline.js";

// Calls 0-2 grow a context of 10 + 5 + 5 tokens; call 3 keeps the first 10 and adds 4; call 4 goes
// back to the context of call 1. Calls 5 and 6 are a helper's, call 7 the first agent's again.
const tree = {
  nodes: 36,
  lineages: ["main", "helper"],
  kinds: ["given"],
  segments: {
    start: Uint32Array.of(0, 10, 15, 20, 24, 30),
    parent: Int32Array.of(-1, 0, 1, 0, -1, 4),
    firstCall: Uint32Array.of(0, 1, 2, 3, 5, 6),
    depth: Uint32Array.of(0, 10, 15, 10, 0, 6),
    length: Uint32Array.of(10, 5, 5, 4, 6, 6),
  },
  calls: {
    tip: Int32Array.of(9, 14, 19, 23, 14, 29, 35, 14),
    lineage: Uint32Array.of(0, 0, 0, 0, 0, 1, 1, 0),
  },
};
const layout = layOut(tree);
const at = (segment) =>
  layout.spans.filter((span) => span.segment === segment).map(({ from, to }) => [from, to]);

test("a segment is one rectangle for each stretch of calls that hold it", () => {
  assert.deepEqual(at(0), [[0, 8]]);
  assert.deepEqual(at(1), [[1, 3], [4, 8]]);
  assert.deepEqual(at(2), [[2, 3]]);
  assert.deepEqual(at(3), [[3, 4]]);
});

test("each rectangle is alive exactly in the calls whose path holds its segment", () => {
  for (const [lane, calls] of layout.lanes.map(({ calls }) => calls).entries()) {
    for (const call of calls) {
      const path = [];
      let segment = tree.segments.start.findLastIndex((start) => start <= tree.calls.tip[call]);
      for (; segment >= 0; segment = tree.segments.parent[segment]) path.unshift(segment);
      const drawn = contextOf(layout, tree.segments, lane, call).map((span) => span.segment);
      assert.deepEqual(drawn, path);
    }
  }
});

test("a cut stands where a context does not extend the one before it in its lineage", () => {
  assert.deepEqual(layout.cuts, [
    { call: 3, lane: 0, depth: 10, top: 20, tail: 14 },
    { call: 4, lane: 0, depth: 10, top: 14, tail: 15 },
  ]);
});

// So many agents with a call each, and the words that the axes of their picture have: [word, x, y].
function wordsOf(count, size = 100) {
  const numbers = (of) => Array.from({ length: count }, (_, i) => of(i));
  const many = {
    nodes: count * size,
    lineages: numbers((i) => `agent ${i}`),
    segments: { start: numbers((i) => i * size), parent: numbers(() => -1), firstCall: numbers((i) => i), depth: numbers(() => 0), length: numbers(() => size) },
    calls: { tip: numbers((i) => (i + 1) * size - 1), lineage: numbers((i) => i) },
  };
  const laid = layOut(many);
  const view = fit(laid);
  const pixels = { width: 1400, height: highFor(count) };
  const words = [];
  const context = { save() {}, restore() {}, fillRect() {}, fillText: (...told) => words.push(told) };
  const place = projection(view, pixels);
  drawAxes(context, { theme: { ink: "#000000" }, view, layout: laid }, place);
  return { words, laid, place };
}

const namesOf = (words) => words.filter(([word]) => String(word).startsWith("agent"));

for (const count of [2, 6, 9]) {
  test(`each of ${count} agents has its name above its lane, below the next one`, () => {
    const { words, laid, place } = wordsOf(count);
    const names = namesOf(words);
    assert.deepEqual(names.map(([name]) => name), laid.lanes.map(({ name }) => name));
    names.slice(0, -1).forEach(([, , y], lane) => {
      assert.ok(y + 6 <= place.py(laid.lanes[lane].base + laid.lanes[lane].height));
      assert.ok(y - 7 + 1e-9 >= place.py(laid.lanes[lane + 1].base), "the name stands between the lanes");
    });
  });
}

for (const count of [12, 80]) {
  test(`names and depths of ${count} agents never overlap: those without room are left out`, () => {
    const { words } = wordsOf(count);
    const names = namesOf(words);
    assert.ok(names.length > 5);
    for (const found of [names, words.filter(([word, x]) => x < 52 && !names.some(([name]) => name === word))]) {
      const places = found.map(([, , y]) => y).sort((a, b) => a - b);
      places.slice(1).forEach((y, i) => assert.ok(y - places[i] >= 13 - 1e-9));
    }
  });
}

test("lanes are stacked without touching", () => {
  const [main, helper] = layout.lanes;
  assert.equal(main.height, 20);
  assert.equal(helper.height, 12);
  assert.ok(helper.base > main.base + main.height);
  assert.equal(layout.height, helper.base + helper.height);
});

test("an empty rollout and a call without tokens lay out", () => {
  assert.deepEqual(layOut({ ...tree, lineages: [], calls: { tip: [], lineage: [] } }).spans, []);
  const empty = { tip: Int32Array.of(9, -1), lineage: Uint32Array.of(0, 0) };
  const cut = layOut({ ...tree, calls: empty }).cuts;
  assert.deepEqual(cut, [{ call: 1, lane: 0, depth: 0, top: 10, tail: 0 }]);
});

test("a point hits the segment that is drawn there", () => {
  assert.equal(hit(layout, tree.segments, 2.5, 17).span.segment, 2);
  assert.equal(hit(layout, tree.segments, 3.5, 12).span.segment, 3);
  assert.equal(hit(layout, tree.segments, 3.5, 17), null);
  assert.equal(hit(layout, tree.segments, 6.2, layout.lanes[1].base + 7).call, 6);
  assert.equal(hit(layout, tree.segments, 6.2, 3).call, 4, "the call whose context stands there");
});

test("callAt is the lineage's latest call, and none outside its life", () => {
  assert.deepEqual([4.9, 5, 6.9, 7].map((x) => callAt(layout.lanes[1], x)), [-1, 5, 6, -1]);
});

test("zoom keeps the point under the pointer, and never leaves the rollout", () => {
  const bounds = fit(layout);
  const closer = zoom(bounds, bounds, 2, 5, 0.5, 1);
  const share = (view) => (2 - view.x0) / (view.x1 - view.x0);
  assert.equal(share(closer), share(bounds));
  assert.deepEqual(zoom(closer, bounds, 2, 5, 100, 100), bounds);
  const tight = zoom(bounds, bounds, 2, 5, 1e-9, 1e-9);
  assert.ok(tight.x1 - tight.x0 >= 1 && tight.y1 - tight.y0 >= 8);
});

test("pan stops at the edges with the view's size kept", () => {
  const bounds = fit(layout);
  const view = zoom(bounds, bounds, 2, 5, 0.5, 0.5);
  const far = pan(view, bounds, 1e6, -1e6);
  assert.equal(far.x1, bounds.x1);
  assert.equal(far.y0, bounds.y0);
  assert.ok(Math.abs(far.x1 - far.x0 - (view.x1 - view.x0)) < 1e-9);
});

test("ticks are few round whole numbers", () => {
  assert.deepEqual(ticks(0, 300, 6), [0, 50, 100, 150, 200, 250, 300]);
  assert.deepEqual(ticks(0.2, 3.9, 20), [1, 2, 3]);
});

test("keys walk calls, segments and cuts without a pointer", () => {
  const start = { tree, layout, bounds: fit(layout), view: fit(layout), hover: null };
  const walk = (...keys) =>
    keys.reduce((state, key) => ({ ...state, ...(act(key, state) ?? {}) }), start);
  const spot = ({ hover }) => hover && [hover.call, hover.segment];
  assert.deepEqual(spot(walk("ArrowRight")), [0, 0]);
  assert.deepEqual(spot(walk("j", "j", "j", "ArrowUp")), [2, 1]);
  assert.deepEqual(spot(walk("n")), [3, 3]);
  assert.deepEqual(spot(walk("n", "n", "ArrowDown")), [4, 0]);
  assert.deepEqual(spot(walk("n", "n", "N")), [3, 3]);
  assert.deepEqual(spot(walk("n", "k", "k", "k", "k", "k")), [0, 0]);
  assert.equal(walk("n", "Enter").chosen, true);
  assert.equal(walk("n", "Escape").hover, null);
  assert.equal(act("x", start), null);
});

test("a key that moves out of the view brings the view along", () => {
  const bounds = fit(layout);
  const view = { x0: 5, x1: 7, y0: 0, y1: bounds.y1 };
  const moved = act("j", { tree, layout, bounds, view, hover: null });
  assert.ok(moved.view.x0 <= moved.hover.call && moved.hover.call + 1 <= moved.view.x1);
});
