// The tree as nodes and links, for small trees: a circle a run of calls, its size their number.

import { follow, makeStage } from "./canvas.js";
import { MOST_NODES, layNodes } from "./nodes.js";
import { fade, mix } from "./theme.js";
import { counted, grouped } from "./text.js";
import { laidOf, stepRun } from "./treepane.js";

const MARGIN = { left: 30, right: 84, top: 14, bottom: 30 };
const NEAR = 14; // pixels from a node at which the pointer means it
const APART = 6; // pixels between two names
const RADIUS = { least: 4, most: 11 };

/** Builds the pane; `bench` is the shared state of the workbench. */
export function nodesPane(bench) {
  const pane = makeStage("mw-nodes");
  follow(pane.stage, {
    ready: () => bench.model && pane.size,
    grab: () => null,
    hover: (point) => bench.point(point && markAt(bench, pane, point), pane.stage, point),
    click: (point) => bench.choose(markAt(bench, pane, point)),
    reset: () => {},
    drag: () => {},
    wheel: () => false,
  });
  return {
    stage: pane.stage,
    draw: () => draw(bench, pane),
    step: (by) => stepRun(bench, by),
    spot: ({ call }) => pane.size && placing(bench, pane)(laidOf(bench).runOf(call)),
  };
}

const laid = new WeakMap(); // by model

function nodesOf(bench) {
  if (!laid.has(bench.model)) laid.set(bench.model, layNodes(laidOf(bench).runs));
  return laid.get(bench.model);
}

// Where a node stands, in pixels.
function placing(bench, { size }) {
  const { nodes, columns, rows } = nodesOf(bench);
  const wide = size.width - MARGIN.left - MARGIN.right;
  const high = size.height - MARGIN.top - MARGIN.bottom;
  return (run) => ({
    left: MARGIN.left + (columns > 1 ? (nodes[run].column / (columns - 1)) * wide : 0),
    top: MARGIN.top + (rows > 1 ? (nodes[run].row / (rows - 1)) * high : high / 2),
  });
}

function markAt(bench, pane, point) {
  const { runs } = laidOf(bench);
  if (runs.length > MOST_NODES) return null;
  const place = placing(bench, pane);
  let [best, least] = [-1, NEAR];
  for (let run = 0; run < runs.length; run++) {
    const { left, top } = place(run);
    const far = Math.hypot(left - point.left, top - point.top);
    if (far < least) [best, least] = [run, far];
  }
  return best < 0 ? null : bench.completed({ call: runs[best].calls[0] });
}

function draw(bench, pane) {
  pane.size = pane.fit();
  if (!pane.size) return;
  const { context, size } = pane;
  const { theme } = bench;
  const { runs, runOf } = laidOf(bench);
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, size.width, size.height);
  context.font = `12px ${theme.font}`;
  context.textBaseline = "middle";
  if (runs.length > MOST_NODES) return refuse(context, theme, size, runs.length);
  const place = placing(bench, pane);
  runs.forEach((run, at) => run.parent >= 0 && link(context, theme, place(run.parent), place(at), run.goesOn));
  const labelled = [];
  runs.forEach((run, at) => node(bench, context, place(at), run, labelled));
  for (const [mark, colour, thick] of [[bench.hover, fade(theme.ink, 0.85), 1.5], [bench.selected, theme.accent, 2.5]]) {
    if (mark) ring(context, place(runOf(mark.call)), radius(runs[runOf(mark.call)]) + 3, colour, thick);
  }
}

function refuse(context, theme, { width, height }, runs) {
  context.fillStyle = fade(theme.ink, 0.75);
  context.textAlign = "center";
  const middle = [width / 2, height / 2];
  context.fillText(`${grouped(runs)} runs of calls are too many to tell apart as nodes (at most ${MOST_NODES}).`, ...middle);
  context.fillText("Key 2 shows them in lanes.", middle[0], middle[1] + 20);
}

const nameOf = ({ calls }) => (calls.length === 1 ? `call ${calls[0]}` : `calls ${calls[0]}–${calls[calls.length - 1]}`);
const radius = ({ calls }) => Math.min(RADIUS.least + 1.5 * Math.sqrt(calls.length), RADIUS.most);

// A bow from the side of one node to that of another; a run that only goes on has a thicker one.
function link(context, theme, from, to, goesOn) {
  const middle = (from.left + to.left) / 2;
  context.strokeStyle = fade(theme.ink, goesOn ? 0.7 : 0.4);
  context.lineWidth = goesOn ? 2.25 : 1.25;
  context.beginPath();
  context.moveTo(from.left, from.top);
  context.bezierCurveTo(middle, from.top, middle, to.top, to.left, to.top);
  context.stroke();
}

function node({ theme, under, model }, context, { left, top }, run, labelled) {
  const size = radius(run);
  const own = run.lineage === model.tree.calls.lineage[0];
  const wrong = run.calls.reduce((most, call) => Math.max(most, under.callShare[call]), 0);
  context.beginPath();
  context.arc(left, top, size, 0, 2 * Math.PI);
  context.fillStyle = run.rejected ? theme.background : own ? theme.given : mix(theme.given, theme.sampled, 0.5);
  context.fill();
  ring(context, { left, top }, size, wrong ? fade(theme.leak, 0.35 + 0.65 * wrong) : fade(theme.ink, 0.5), wrong ? 3 : 1);
  const text = nameOf(run);
  const below = top + size + 11;
  const box = { left: left - size, right: left - size + context.measureText(text).width, top: below };
  if (labelled.some((other) => Math.abs(other.top - top) < 14 && other.left < box.right + APART && box.left < other.right + APART)) return;
  labelled.push(box);
  context.textAlign = "left";
  context.fillStyle = fade(theme.background, 0.75);
  context.fillRect(box.left - 1, below - 7, box.right - box.left + 2, 14);
  context.fillStyle = fade(theme.ink, 0.85);
  context.fillText(text, box.left, below);
}

function ring(context, { left, top }, size, colour, thick) {
  context.beginPath();
  context.arc(left, top, size, 0, 2 * Math.PI);
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.stroke();
}

/** What the nodes show, for a screen reader. */
export function nodesLabel(bench) {
  const { nodes, columns } = nodesOf(bench);
  return `Tree of ${counted(nodes.length, "run")} of calls as nodes, ${counted(columns, "generation")}. Left and right move by run, Enter selects.`;
}
