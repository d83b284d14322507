// Reads [{payload (base64), views}] from standard input; prints, of each, what every node is and, by
// view, the class of every (target, key) cell, and whether the packed order is what it should be.

import { readFileSync } from "node:fs";

import { distinct } from "../../mwviz/frontend/births.js";
import { NAMES, classAt, judge } from "../../mwviz/frontend/classes.js";
import { decode } from "../../mwviz/frontend/payload.js";
import { lastAtMost } from "../../mwviz/frontend/sorted.js";
import { comparePacked } from "./packedcells.mjs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const answers = asked.map(({ payload, views }) => {
  const tree = decode(new Uint8Array(Buffer.from(payload, "base64")));
  const kinds = Array.from({ length: tree.nodes }, (_, node) => tree.kinds[tree.runs.kind[lastAtMost(tree.runs.start, node)]]);
  const cells = Object.fromEntries(
    views.map((name) => {
      const judged = judge(tree, tree.views.find((view) => view.name === name));
      const cells = [];
      for (let target = 0; target < tree.targets.count; target++) {
        for (let key = 0; key < distinct(tree); key++) cells.push(NAMES[classAt(judged, target, key)]);
      }
      return [name, cells];
    }),
  );
  const packed = Object.fromEntries(
    views.map((name) => {
      const view = tree.views.find((shipped) => shipped.name === name);
      return [name, comparePacked(tree, view, judge(tree, view))];
    }),
  );
  return { kinds, cells, packed };
});
process.stdout.write(JSON.stringify(answers));
