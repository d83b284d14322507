// How far the page scrolls to a token that a button led to.

import assert from "node:assert/strict";
import { test } from "node:test";
import { leadBy, leaveSaid, said } from "../../mwviz/frontend/leading.js";

test("nothing moves where the token and what is said of it are in sight", () => {
  assert.equal(leadBy({ pane: 100, token: 300, said: 600, high: 900 }), 0);
});

test("the pane comes to the top where all fits below the navigation", () => {
  assert.equal(leadBy({ pane: 580, token: 880, said: 1280, high: 900 }), 516);
});

test("a low window leaves out the head of the pane, never the token", () => {
  const by = leadBy({ pane: 580, token: 800, said: 1280, high: 768 });
  assert.equal(1280 + 96 - by, 768 - 40, "the words end above the line of sizes");
  assert.ok(800 - by >= 64);
  const lowest = leadBy({ pane: 580, token: 800, said: 1280, high: 400 });
  assert.equal(800 - lowest, 72, "the token stays below the navigation");
});

test("what lies above is scrolled back to", () => {
  assert.equal(leadBy({ pane: -900, token: -700, said: -200, high: 900 }), -964);
});

test("where nothing says anything of it the pane comes into sight", () => {
  assert.equal(leadBy({ pane: 580, token: 980, said: null, high: 900 }), 516);
});

test("an element that is gone says nothing more, unless another has taken its place", () => {
  globalThis.window = {};
  const [first, second] = [{}, {}];
  const endFirst = leaveSaid(first);
  const endSecond = leaveSaid(second);
  endFirst();
  assert.equal(said(), second);
  endSecond();
  assert.equal(said(), null);
});
