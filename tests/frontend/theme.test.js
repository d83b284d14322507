import assert from "node:assert/strict";
import test from "node:test";

import { channels, edgeOf, inkOn, metricTint } from "../../mwviz/frontend/theme.js";

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

test("ink is readable on every colour behind text, at least 4.5 to 1", () => {
  const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const bright = (colour) => channels(colour).map(linear).reduce((sum, value, i) => sum + [0.2126, 0.7152, 0.0722][i] * value, 0.05);
  const ratio = (a, b) => Math.max(bright(a), bright(b)) / Math.min(bright(a), bright(b));
  for (const [dark, background, ink, leak] of [[false, "#ffffff", "#31333f", "#C1440E"], [true, "#171614", "#edebe8", "#FF7A3D"]])
    for (const metric of [{ kind: "drift", signed: true }, { kind: "size" }, { kind: "leaks" }, { kind: "entropy" }])
      for (let level = metric.signed ? -1 : 0; level <= 1; level += 0.02) {
        const tint = metricTint({ ...metric, clip: { level: 1 } }, level, { dark, background, ink, leak });
        assert.ok(ratio(inkOn(tint), tint) >= 4.5, `${metric.kind} at ${level} on ${background}: ${tint}`);
      }
});
