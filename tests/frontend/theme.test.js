import assert from "node:assert/strict";
import test from "node:test";

import { edgeOf } from "../../mwviz/frontend/theme.js";

const THEME = { background: "#ffffff", ink: "#31333f", given: "#CDD5DE", sampled: "#4C97AD" };

test("each role has an edge of its own, 4 px wide, told apart without its colour", () => {
  const edges = [..."SUATM"].map((role) => edgeOf(role, THEME, { sampled: true }));
  assert.equal(new Set(edges).size, 5);
  for (const edge of edges) assert.match(edge, / left \/ 4px 100% no-repeat$/);
  const patterns = [1, 3, 4].map((at) => edges[at].match(/repeating-linear-gradient\((?:\d+deg)?/)[0] + edges[at].match(/transparent \S+ \S+|#CDD5DE \S+ \S+/)[0]);
  assert.equal(new Set(patterns).size, 3);
});

test("an agent's text that was given again has the edge of what was given, as has an unknown role", () => {
  assert.match(edgeOf("A", THEME, { sampled: false }), /#CDD5DE/);
  assert.match(edgeOf("", THEME, { sampled: true }), /#CDD5DE/);
  assert.match(edgeOf("A", THEME, { sampled: true }), /#4C97AD/);
});
