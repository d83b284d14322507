import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { HELP } from "../../mwviz/frontend/keys.js";

test("the page about the workbench lists every key and what it does", () => {
  const page = readFileSync(new URL("../../docs/workbench.md", import.meta.url), "utf8");
  const listed = [...page.split("## Keys")[1].matchAll(/^\| `(.+)` \| (.+) \|$/gm)].map(([, keys, words]) => [keys, words]);
  assert.deepEqual(listed, HELP);
});
