// Which element of the text pane a page is scrolled to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { textPane } from "../../mwviz/frontend/textpane.js";
import { readTheme } from "../../mwviz/frontend/theme.js";

// As much of an element as the pane needs, in letters one pixel wide.
function made() {
  const children = [];
  const append = (...more) => children.push(...more);
  const replaceChildren = (...more) => children.splice(0, Infinity, ...more);
  const shape = { clientWidth: 400, clientHeight: 100, offsetHeight: 0, scrollTop: 0 };
  const classList = { add() {} };
  const getContext = () => ({ measureText: (text) => ({ width: text.length }) });
  return { ...shape, children, style: {}, dataset: {}, classList, append, replaceChildren, getContext, setAttribute() {}, addEventListener() {}, getRootNode: () => document };
}

function drawn({ hover, selected }) {
  globalThis.document = { createElement: made, getSelection: () => null };
  globalThis.getComputedStyle = () => ({ getPropertyValue: () => "" });
  const model = modelOf(decode(new Uint8Array(readFileSync(new URL("kept_tail.payload", import.meta.url)))));
  const theme = readTheme(null);
  const bench = { model, theme, hover, selected, shownCall: 0, pinned: null, under: model.under("rightmost", "view") };
  const pane = textPane(bench);
  pane.draw();
  return pane;
}

test("the page is led to the selected token, never to the one that is pointed at", () => {
  const [there, other] = [1, 2].map((key) => ({ key, target: null }));
  const both = drawn({ hover: other, selected: there }).marker;
  assert.ok(both);
  assert.equal(both.textContent, drawn({ hover: null, selected: there }).marker.textContent);
  assert.notEqual(both.textContent, drawn({ hover: null, selected: other }).marker.textContent);
  assert.equal(drawn({ hover: there, selected: { key: 1e6, target: null } }).marker, undefined, "it is not drawn");
  assert.equal(drawn({ hover: there, selected: null }).marker, undefined);
});
