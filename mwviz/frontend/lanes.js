// The eviction tree as lanes: one bar for each run of calls that nothing parts, one lane a branch,
// lanes used again once nothing leads to them any more. Pure.

import { nodeAt } from "./births.js";
import { lastAtMost } from "./sorted.js";

const REJECTED = "retry";

/**
 * `runs` in order of their first call, each one unit wide at `x`: {calls, lane, x, lineage, parent
 * (index of the run it goes on from or leaves, -1), goesOn, kind (of the change that parts it),
 * evicts, rejected (its last completion was thrown away and sampled again)}; `runOf(call)`; `lanes`.
 */
export function layLanes({ tree, previous }) {
  const changes = new Map(tree.junctions.filter(({ depth }) => depth >= 0).map((junction) => [junction.call, junction]));
  const leaves = new Map([...changes.values()].map(({ call, depth }) => [call, leftAt(tree, call, depth)]));
  const ends = new Set(leaves.values());
  const runs = [];
  const runOf = new Int32Array(previous.length).fill(-1);
  for (let call = 0; call < previous.length; call++) {
    const before = previous[call];
    const change = changes.get(call);
    if (before >= 0 && !change && !ends.has(before)) runs[runOf[before]].calls.push(call);
    else runs.push({ calls: [call], lineage: tree.calls.lineage[call], goesOn: before >= 0 && !change, kind: change?.kind ?? "", evicts: change?.evicts ?? false, rejected: false });
    runOf[call] = before >= 0 && !change && !ends.has(before) ? runOf[before] : runs.length - 1;
    if (change?.kind === REJECTED && before >= 0) runs[runOf[before]].rejected = true;
  }
  for (const run of runs) {
    const [first] = run.calls;
    run.parent = run.goesOn ? runOf[previous[first]] : leaves.has(first) && leaves.get(first) >= 0 ? runOf[leaves.get(first)] : -1;
  }
  runs.forEach((run, x) => (run.x = x));
  return { runs, lanes: assign(runs), runOf: (call) => runOf[call] };
}

// The call that first held the last token that `call` shares with the context before it, or -1.
function leftAt(tree, call, depth) {
  const node = depth > 0 ? nodeAt(tree, tree.calls.tip[call], depth - 1) : -1;
  return node < 0 ? -1 : tree.segments.firstCall[lastAtMost(tree.segments.start, node)];
}

// Gives every run its lane: that of the run it goes on from, else the first that is free. A lane is
// taken until one unit after the last run that leaves any run in it.
function assign(runs) {
  const until = runs.map(({ x }) => x);
  for (let i = runs.length - 1; i >= 0; i--) {
    if (runs[i].parent >= 0) until[runs[i].parent] = Math.max(until[runs[i].parent], runs[i].goesOn ? until[i] : runs[i].x);
  }
  const free = [];
  runs.forEach((run, i) => {
    if (run.goesOn) run.lane = runs[run.parent].lane;
    else {
      const lane = free.findIndex((taken) => taken < run.x - 1);
      run.lane = lane < 0 ? free.length : lane;
    }
    free[run.lane] = Math.max(free[run.lane] ?? 0, until[i]);
  });
  return Math.max(free.length, 1);
}
