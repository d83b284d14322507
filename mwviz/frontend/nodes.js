// The runs of the eviction tree as nodes and links: a generation a column, leaves in rows. Pure.

/** Runs up to which nodes and links can be told apart. */
export const MOST_NODES = 120;

/**
 * Places for `runs` (of `layLanes`): `nodes` as {column, row} in their order, `columns` and `rows`.
 * A node stands in the middle of what leaves it; leaves stand in the order of their first calls.
 */
export function layNodes(runs) {
  const children = runs.map(() => []);
  const roots = [];
  runs.forEach(({ parent }, run) => (parent < 0 ? roots : children[parent]).push(run));
  const nodes = runs.map(({ parent }) => ({ column: 0, row: 0, parent }));
  for (const node of nodes) node.column = node.parent < 0 ? 0 : nodes[node.parent].column + 1;
  let rows = 0;
  const stack = roots.toReversed();
  while (stack.length) {
    const run = stack.pop();
    if (!children[run].length) nodes[run].row = rows++;
    stack.push(...children[run].toReversed());
  }
  for (let run = runs.length - 1; run >= 0; run--) {
    const below = children[run];
    if (below.length) nodes[run].row = (nodes[below[0]].row + nodes[below[below.length - 1]].row) / 2;
  }
  const columns = nodes.reduce((most, { column }) => Math.max(most, column + 1), 1);
  return { nodes, columns, rows: Math.max(rows, 1) };
}
