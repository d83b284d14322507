import assert from "node:assert/strict";
import test from "node:test";

import { addressOf, readZoom, zoomText } from "../../mwviz/frontend/address.js";

const all = { timeline: { x0: 0, x1: 200, y0: 0, y1: 5300.5 }, mask: { x0: 0, x1: 90_000, y0: 0, y1: 9_811 }, drift: { x0: 0, x1: 9_811 } };

function parts(told) {
  const shown = { view: "rightmost", metric: "drift", mark: null, first: [0, 5, 9], pinned: null, all, views: all, marked: null, front: null };
  return addressOf({ address: { t: "busy", B: "logit_tree" }, ...shown, ...told });
}

test("what is as it is at first is left out", () => {
  assert.deepEqual(parts({}), { t: "busy", B: "logit_tree", A: "rightmost" });
});

test("a place is told by its call and the token in it, the view by what ran it", () => {
  const mark = { call: 1, segment: 4, target: 7, key: 0 };
  const told = parts({ address: { t: "busy-2", B: "replay", setup: "0a1b2c3d", ev: "3" }, mark, pinned: { call: 0 }, metric: "kl", marked: [4, 9], front: "drift" });
  assert.deepEqual(told, { t: "busy-2", B: "replay", ev: "3", A: "rightmost-0a1b2c3d", call: "1", tok: "2", k: "0", sel: "4-9", m: "kl", p: "drift", pin: "0" });
});

test("whose tokens all counts in and what is subtracted are told as the page tells them", () => {
  const address = { t: "busy", B: "logit_tree", setup: "0a1b2c3d", tk: `89abcdef-${"0".repeat(32)}`, ba: "replay-0a1b2c3d-rightmost-0a1b2c3d-p" };
  const { setup, ...own } = address;
  assert.deepEqual(parts({ address }), { ...own, A: `rightmost-${setup}` });
});

test("a zoom comes back as far as whole numbers tell it", () => {
  const views = { ...all, mask: { x0: 40_000.4, x1: 44_000.2, y0: 812, y1: 819 }, drift: { x0: 812, x1: 990 } };
  const text = zoomText(all, views);
  assert.match(text, /^[A-Za-z0-9_-]{1,64}$/);
  assert.deepEqual(readZoom(text, all), { mask: { x0: 40_000, x1: 44_001, y0: 812, y1: 819 }, drift: { x0: 812, x1: 990 } });
  assert.equal(zoomText(all, all), "");
});

test("three zooms of a rollout of millions of tokens fit into one value", () => {
  const wide = { timeline: { x0: 0, x1: 10_450, y0: 0, y1: 2_300_000 }, mask: { x0: 0, x1: 2_300_000, y0: 0, y1: 2_300_000 }, drift: { x0: 0, x1: 2_300_000 } };
  const near = Object.fromEntries(Object.entries(wide).map(([name, view]) => [name, Object.fromEntries(Object.entries(view).map(([edge, most]) => [edge, edge.endsWith("1") ? most - 1 : 10_000]))]));
  const text = zoomText(wide, near);
  assert.ok(text.length <= 64, text);
  assert.deepEqual(readZoom(text, wide), near);
});

test("what lies outside of this rollout is cut to it, and what cannot be read is refused", () => {
  assert.deepEqual(readZoom("d0-zzzz", all), { drift: { x0: 0, x1: 9_811 } });
  for (const text of ["", "q1-2", "d5-5", "d9-3", "d1", "m1-2", "d1-2_", "t0-1-2-3-4", `d${(9_811).toString(36)}-zzzz`]) assert.equal(readZoom(text, all), null, text);
});
