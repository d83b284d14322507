// The rows behind each drawing, as a table: the same facts in words and numbers. Pure.

import { rankOf } from "./births.js";
import { AGREE, COUNTED, NAMES, pairsByCall } from "./classes.js";
import { layLanes } from "./lanes.js";
import { METRICS } from "./metrics.js";
import { counted, visible } from "./text.js";

const LOADING = "…"; // a number that the server is sending
const DEEPEST = 12; // levels that are drawn as lines in front of a row

/**
 * {title, columns, count, row(i) (texts and numbers), mark(i) (a part of a selection)} of a pane; `awaited`
 * where numbers of it are still to come.
 */
export function tableOf(name, bench, laid) {
  const timeline = bench.shape === "contexts" || !bench.shape ? calls : branches;
  return { timeline, mask: pairs, text: () => tokens(bench, laid), drift: targets }[name](bench);
}

// The tree as rows: what leaves a branch stands below it, one step to the right.
function branches({ model, under }) {
  const { tree } = model;
  const { runs } = layLanes(model);
  const { first } = tree.targets;
  const change = new Map(tree.junctions.map((junction) => [junction.call, junction]));
  const rows = preorder(runs);
  const wrong = (calls) => {
    const sampled = calls.reduce((sum, call) => sum + first[call + 1] - first[call], 0);
    const seen = calls.reduce((sum, call) => sum + under.callShare[call] * (first[call + 1] - first[call]), 0);
    return sampled ? Math.round((1000 * seen) / sampled) / 10 : 0;
  };
  return {
    title: `Tree: one row a run of calls that only add to their context, indented by branch (${counted(runs.length, "run")})`,
    columns: ["branch", "level", "calls", "agent", "parted by", "tokens kept", "tokens evicted", "sampled tokens", "% of its tokens that see wrong text or miss some"],
    count: rows.length,
    row: (i) => {
      const { run, level } = rows[i];
      const junction = run.goesOn ? undefined : change.get(run.calls[0]);
      return [
        indented(level, run),
        level,
        run.calls.length,
        visible(tree.lineages[run.lineage]),
        run.goesOn ? "goes on" : run.kind.replaceAll("_", " "),
        junction ? Math.max(junction.depth, 0) : "",
        junction ? junction.evicted : "",
        run.calls.reduce((sum, call) => sum + first[call + 1] - first[call], 0),
        wrong(run.calls),
      ];
    },
    mark: (i) => ({ call: rows[i].run.calls[0] }),
  };
}

// Runs from the root on, each followed by what leaves it and then by what goes on from it.
function preorder(runs) {
  const below = runs.map(() => []);
  const roots = [];
  runs.forEach((run, at) => (run.parent < 0 ? roots : below[run.parent]).push(at));
  const rows = [];
  const open = roots.reverse().map((at) => [at, 0]);
  while (open.length) {
    const [at, level] = open.pop();
    rows.push({ run: runs[at], level });
    const next = [...below[at]].sort((a, b) => runs[a].goesOn - runs[b].goesOn || a - b);
    for (const child of next.reverse()) open.push([child, level + (runs[child].goesOn ? 0 : 1)]);
  }
  return rows;
}

// A run's name behind the lines of its branch; of very deep ones the innermost lines only.
function indented(level, { calls, rejected, goesOn }) {
  const last = calls[calls.length - 1];
  const drawn = Math.min(level, DEEPEST);
  const lines = `${level > DEEPEST ? "… " : ""}${goesOn || !level ? "│ ".repeat(drawn) : `${"│ ".repeat(drawn - 1)}└ `}`;
  return `${lines}call${calls.length > 1 ? `s ${calls[0]}–${last}` : ` ${last}`}${rejected ? " (thrown away)" : ""}`;
}

function calls({ model, under }) {
  const { tree } = model;
  const { first } = tree.targets;
  const change = new Map(tree.junctions.map((junction) => [junction.call, junction]));
  return {
    title: "Contexts: one row a call",
    columns: ["call", "agent", "prompt tokens", "sampled tokens", "change before it", "tokens evicted", "% of its tokens that see wrong text or miss some"],
    count: tree.calls.tip.length,
    row: (call) => [
      call,
      visible(tree.lineages[tree.calls.lineage[call]]),
      tree.calls.prompt[call],
      first[call + 1] - first[call],
      change.get(call)?.kind.replaceAll("_", " ") ?? "",
      change.get(call)?.evicted ?? 0,
      Math.round(1000 * under.callShare[call]) / 10,
    ],
    mark: (call) => ({ call }),
  };
}

function pairs({ model, under }) {
  const kinds = [AGREE, ...COUNTED];
  const counts = pairsByCall(under.judged, model.tree.calls.tip.length);
  const { first } = model.tree.targets;
  return {
    title: `Who sees what under ${under.view.name}: pairs of a sampled token and a token of text, by call`,
    columns: ["call", "sampled tokens", ...kinds.map((kind) => NAMES[kind])],
    count: model.tree.calls.tip.length,
    row: (call) => [call, first[call + 1] - first[call], ...kinds.map((kind) => counts[call][kind])],
    mark: (call) => (first[call + 1] > first[call] ? { target: first[call] } : { call }),
  };
}

function tokens({ model, under, shownCall, metric }, laid) {
  const { tree } = model;
  return {
    title: `Text of call ${shownCall}: one row a token`,
    columns: ["place", "token id", "text", "what it is", "here", under.metric.words],
    count: laid.size,
    awaited: under.metric.awaited,
    row: (i) => {
      const node = laid.node[i];
      const rank = rankOf(tree, node);
      const target = under.targetOf(rank);
      const gone = laid.gone[i];
      return [i, tree.idOf(node), visible(tree.text(node, node + 1)), model.keyMark(rank), gone < 0 ? "" : `left before call ${gone}`, target < 0 ? "" : rounded(under.number(metric)?.value(target))];
    },
    mark: (i) => {
      const rank = rankOf(tree, laid.node[i]);
      const target = under.targetOf(rank);
      return target < 0 ? { call: shownCall, segment: model.segmentOf(laid.node[i]), key: rank } : { target };
    },
  };
}

function targets({ model, under }) {
  const { tree } = model;
  const shown = METRICS.filter(([kind]) => under.known.includes(kind));
  const order = under.metric.worst;
  return {
    title: `Sampled tokens under ${under.view.name}, the largest ${under.metric.words} first`,
    columns: ["call", "token", "text", ...shown.map(([, words]) => words)],
    count: order.length,
    awaited: under.metric.awaited || shown.some(([kind]) => !under.number(kind)),
    row: (i) => {
      const call = model.callOf(order[i]);
      return [call, order[i] - tree.targets.first[call], visible(model.words(model.nodeOf(order[i]))), ...shown.map(([kind]) => (under.number(kind) ? rounded(under.number(kind).value(order[i])) : LOADING))];
    },
    mark: (i) => ({ target: order[i] }),
  };
}

// Numbers told as one byte have no more than three digits.
function rounded(number) {
  return number === null || number === undefined ? "" : Number(number.toPrecision(3));
}
