// Tokens as lines that a spreadsheet or a script takes: place, id, text. Pure.

import { csvOf } from "./csv.js";
import { visible } from "./text.js";

/** Tab-separated lines of the laid-out tokens [first, last], or of all that are in the context. */
export function copied(tree, laid, range) {
  const lines = [["place", "token id", "text"].join("\t")];
  const [first, last] = range ?? [0, laid.size - 1];
  for (let i = first; i <= last; i++) {
    if (!range && laid.gone[i] >= 0) continue;
    const node = laid.node[i];
    lines.push([i, tree.idOf(node), visible(tree.text(node, node + 1))].join("\t"));
  }
  return lines.join("\n");
}

/** Every row of a table as CSV. */
export function tableCsv({ columns, count, row }) {
  return csvOf([columns, ...Array.from({ length: count }, (_, i) => row(i))]);
}
