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

test("the edges of an agent and of an unknown role tell what was sampled from what was given", () => {
  for (const role of ["A", ""]) {
    assert.match(edgeOf(role, THEME, { sampled: false }), /#CDD5DE/);
    assert.match(edgeOf(role, THEME, { sampled: true }), /#4C97AD/);
  }
});
