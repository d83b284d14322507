// The mask in packed order, cell by cell from its definition, beside what `packedOrder` says: the
// number of cells that differ, and the rows it was made from. Slow and plain.

import { rankOf } from "../../mwviz/frontend/births.js";
import { AGREE, ERASED, LOST, NONE, SELF, UNTRAINED, classAt, groupOf } from "../../mwviz/frontend/classes.js";
import { packedOrder, rowsOfTree } from "../../mwviz/frontend/packedorder.js";

export function comparePacked(tree, view, judged) {
  const rows = (view.rows ?? rowsOfTree(tree, view.name)).map(expanded);
  const packed = packedOrder(tree, view, judged);
  let [base, wrong] = [0, 0];
  for (const { nodes, until, target } of rows) {
    for (let q = 0; q < nodes.length; q++) {
      for (let k = 0; k < nodes.length; k++) {
        const meant = cell({ tree, judged, nodes, until, target }, q, k);
        if (classAt(packed.judged, base + q, base + k) !== meant) wrong++;
      }
    }
    base += nodes.length;
  }
  return { wrong, rows: rows.map(({ nodes, until, pairs }) => [nodes, until, ...pairs]) };
}

function expanded({ runs, edges: [query, target, count] }) {
  const [nodes, until] = [[], []];
  runs.node.forEach((node, i) => {
    for (let j = 0; j < runs.length[i]; j++) {
      nodes.push(node + j);
      until.push(runs.until[i]);
    }
  });
  const predicts = new Map();
  const pairs = [];
  target.forEach((t, e) => {
    for (let j = 0; j < count[e]; j++) {
      predicts.set(query[e] + j, t + j);
      pairs.push([query[e] + j, t + j]);
    }
  });
  pairs.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return { nodes, until, target: predicts, pairs };
}

function cell({ tree, judged, nodes, until, target }, q, k) {
  const t = target.get(q) ?? -1;
  const trained = t >= 0 && judged.trained[groupOf(judged, t)] === 1;
  const seen = k <= q && q < until[k];
  if (k === q) return trained ? SELF : NONE;
  if (!trained) return seen ? UNTRAINED : NONE;
  const kind = classAt(judged, t, rankOf(tree, nodes[k]));
  if (seen) return kind === NONE || kind === SELF ? UNTRAINED : kind;
  return k < q && (kind === ERASED || kind === LOST) ? kind : NONE;
}
