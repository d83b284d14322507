import assert from "node:assert/strict";
import test from "node:test";

import { fitted, grouped, short, visible } from "../../mwviz/frontend/text.js";
import { luminance, mix } from "../../mwviz/frontend/theme.js";

test("no control or direction mark reaches the page unseen", () => {
  assert.equal(visible("a\nb\tc"), "a↵b→c");
  assert.equal(visible("\u202eevil\u2066"), "⟨202E⟩evil⟨2066⟩");
  assert.equal(visible("\u0000\u001b[31m\u009b\u007f"), "⟨00⟩⟨1B⟩[31m⟨9B⟩⟨7F⟩");
  assert.equal(visible("検索 é <b>"), "検索 é <b>");
});

test("numbers are grouped, and short on axes", () => {
  assert.deepEqual([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
  assert.deepEqual([0, 950, 1500, 20000, 2.3e6].map(short), ["0", "950", "1.5k", "20k", "2.3M"]);
});

test("words are cut to the room they have, between letters", () => {
  const measure = (told) => [...told].length;
  assert.equal(fitted("a town", 6, measure), "a town");
  assert.equal(fitted("a town on the Wilra", 8, measure), "a town…");
  assert.equal(fitted("👩💻👩💻", 3, measure), "👩💻…");
  assert.equal(fitted("town", 1, measure), "");
});

test("colours are read in every form that a theme gives", () => {
  assert.ok(luminance("#fff") > 0.99 && luminance("rgb(0, 0, 0)") < 0.01);
  assert.equal(luminance("#ffffff"), luminance("rgba(255, 255, 255, 0.5)"));
  assert.equal(mix("#000000", "rgb(200, 100, 50)", 0.5), "rgb(100, 50, 25)");
});
