// The tree pane: runs of calls as bars in lanes, what leaves a branch below it.

import { follow, makeStage, slid, wheelFactor, zoomed } from "./canvas.js";
import { layLanes } from "./lanes.js";
import { fade, inkOn, mix } from "./theme.js";
import { counted } from "./text.js";

const MARGIN = { left: 16, right: 16, top: 14, bottom: 8 };
const LANE = { least: 10, most: 44 };
const CLOSEST = 3; // runs that the closest zoom shows
const WIDE = 120; // pixels of the widest run

/** Builds the pane; `bench` is the shared state of the workbench. */
export function treePane(bench) {
  const pane = { ...makeStage("mw-tree"), view: null };
  const most = () => Math.max(laidOf(bench).runs.length, 1);
  const setView = (view) => {
    pane.view = view;
    bench.repaint();
  };
  const within = () => pane.view ?? { x0: 0, x1: most() };
  const zoomAbout = (left, factor) => {
    const { x0, x1 } = within();
    const [a, b] = zoomed(x0, x1, placing(bench, pane).wx(left), factor, { least: 0, most: most(), size: CLOSEST });
    setView({ x0: a, x1: b });
  };
  follow(pane.stage, {
    ready: () => bench.model && pane.size,
    grab: () => ({ ...within() }),
    hover: (point) => bench.point(point && markAt(bench, pane, point), pane.stage, point),
    click: (point) => bench.choose(markAt(bench, pane, point)),
    reset: () => setView(null),
    drag: (from, point, kept) => {
      const by = (point.left - from.left) / placing(bench, pane).unit;
      const [x0, x1] = slid(kept.x0 - by, kept.x1 - by, 0, most());
      setView({ x0, x1 });
    },
    wheel: (event, point) => {
      const before = JSON.stringify(within());
      zoomAbout(point.left, wheelFactor(event));
      return JSON.stringify(within()) !== before;
    },
  });
  return {
    stage: pane.stage,
    forget: () => (pane.view = null),
    draw: () => draw(bench, pane),
    zoom: (factor) => zoomAbout(pane.size.width / 2, factor),
    reset: () => setView(null),
    step: (by) => stepRun(bench, by),
    spot: (mark) => {
      if (!pane.size) return null;
      const place = placing(bench, pane);
      const run = laidOf(bench).runs[laidOf(bench).runOf(mark.call)];
      return { left: place.px(run.x + 0.5), top: place.py(run.lane) };
    },
  };
}

const laid = new WeakMap(); // by model

/** The runs of calls of the rollout in sight, in lanes. */
export function laidOf({ model }) {
  if (!laid.has(model)) laid.set(model, layLanes(model));
  return laid.get(model);
}

function placing(bench, pane) {
  const { runs, lanes } = laidOf(bench);
  const { x0, x1 } = pane.view ?? { x0: 0, x1: Math.max(runs.length, 1) };
  const width = Math.max(pane.size.width - MARGIN.left - MARGIN.right, 1);
  const unit = Math.min(width / (x1 - x0), pane.view ? Infinity : WIDE);
  const high = Math.min(Math.max((pane.size.height - MARGIN.top - MARGIN.bottom) / lanes, LANE.least), LANE.most);
  return {
    unit,
    high,
    bar: Math.max(high * 0.5, 4),
    px: (x) => MARGIN.left + (x - x0) * unit,
    wx: (left) => x0 + (left - MARGIN.left) / unit,
    py: (lane) => MARGIN.top + (lane + 0.62) * high,
  };
}

function markAt(bench, pane, point) {
  const place = placing(bench, pane);
  const { runs } = laidOf(bench);
  const x = place.wx(point.left);
  const run = runs[Math.floor(x)];
  if (!run || Math.abs(point.top - place.py(run.lane)) > place.bar) return null;
  const share = Math.min(Math.max((x - run.x) / 0.92, 0), 0.999);
  return bench.completed({ call: run.calls[Math.floor(share * run.calls.length)] });
}

function draw(bench, pane) {
  pane.size = pane.fit();
  if (!pane.size) return;
  const { context, size } = pane;
  const { theme } = bench;
  const place = placing(bench, pane);
  const whole = laidOf(bench);
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, size.width, size.height);
  context.font = `12px ${theme.font}`;
  for (const run of whole.runs) drawLink(context, theme, place, whole, run);
  for (const run of whole.runs) drawRun(bench, context, pane, place, run);
  for (const [mark, colour, thick] of [[bench.hover, fade(theme.ink, 0.85), 1.5], [bench.selected, theme.accent, 2.5]]) {
    if (mark) frame(context, place, whole.runs[whole.runOf(mark.call)], mark.call, { colour, thick });
  }
}

// Along the lane of the run that is left, down to the one that leaves it.
function drawLink(context, theme, place, { runs }, run) {
  if (run.parent < 0) return;
  const from = runs[run.parent];
  const [left, right] = [place.px(from.x + 0.92), place.px(run.x)];
  const [top, bottom] = [place.py(from.lane), place.py(run.lane)];
  context.strokeStyle = fade(theme.ink, 0.45);
  context.lineWidth = 1.25;
  context.beginPath();
  if (run.goesOn) {
    context.moveTo(left, top);
    context.lineTo(right, bottom);
  } else {
    const rail = top - place.high * 0.42;
    const turn = right - Math.min(place.unit * 0.05, 6);
    const bend = Math.min(6, Math.max(turn - left, 0), Math.abs(bottom - rail));
    context.moveTo(left, top - place.bar / 2);
    context.lineTo(left, rail);
    context.lineTo(Math.max(turn - bend, left), rail);
    context.quadraticCurveTo(turn, rail, turn, rail + bend);
    context.lineTo(turn, bottom);
    context.lineTo(right, bottom);
  }
  context.stroke();
}

function drawRun({ theme, under, model }, context, pane, place, run) {
  const [left, width] = [place.px(run.x), place.unit * 0.92];
  if (left + width < 0 || left > pane.size.width) return;
  const top = place.py(run.lane) - place.bar / 2;
  const own = run.lineage === model.tree.calls.lineage[0];
  const fill = own ? theme.given : mix(theme.given, theme.sampled, 0.5);
  context.fillStyle = fill;
  context.fillRect(left, top, Math.max(width, 1), place.bar);
  const wrong = run.calls.reduce((most, call) => Math.max(most, under.callShare[call]), 0);
  if (wrong) {
    context.fillStyle = fade(theme.leak, 0.35 + 0.65 * wrong);
    context.fillRect(left, top + place.bar + 1, Math.max(width, 1), 3);
  }
  drawEnd(context, theme, { left: left + width, middle: top + place.bar / 2, width }, run);
  context.textBaseline = "middle";
  context.textAlign = "left";
  if (place.bar >= 14) words(context, runWords(run), { left: left + 6, top: top + place.bar / 2, room: width - 18, colour: inkOn(fill) });
  if (run.kind && place.high >= 30) words(context, run.kind.replaceAll("_", " "), { left, top: top - 8, room: place.unit * 1.6, colour: fade(theme.ink, 0.75) });
}

// The end of a run: a dot, hollow where the completion was thrown away.
function drawEnd(context, theme, { left, middle, width }, run) {
  if (width < 10) return;
  context.beginPath();
  context.arc(left - 5, middle, 3.5, 0, 2 * Math.PI);
  context.fillStyle = run.rejected ? theme.background : theme.sampled;
  context.strokeStyle = theme.sampled;
  context.lineWidth = 1.5;
  context.fill();
  context.stroke();
}

function runWords({ calls }) {
  const last = calls[calls.length - 1];
  return calls.length === 1 ? [`call ${last}`, `${last}`] : [`calls ${calls[0]}–${last} · ${calls.length} calls`, `${calls.length} calls`, `${calls.length}`];
}

// The first of some texts that fits.
function words(context, texts, { left, top, room, colour }) {
  const text = [texts].flat().find((one) => context.measureText(one).width <= room);
  if (!text) return;
  context.fillStyle = colour;
  context.fillText(text, left, top);
}

function frame(context, place, run, call, { colour, thick }) {
  const wide = (place.unit * 0.92) / run.calls.length;
  const left = place.px(run.x) + run.calls.indexOf(call) * wide;
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.strokeRect(left, place.py(run.lane) - place.bar / 2 - 1, Math.max(wide, 2), place.bar + 2);
}

/** Points at the run before or after the one that is marked. */
export function stepRun(bench, by) {
  const { runs, runOf } = laidOf(bench);
  const at = bench.hover ?? bench.selected;
  const index = Math.min(Math.max(at ? runOf(at.call) + by : 0, 0), runs.length - 1);
  bench.point(bench.completed({ call: runs[index].calls[0] }), null);
}

/** What the tree shows, for a screen reader. */
export function treeLabel({ model }) {
  const { runs, lanes } = laidOf({ model });
  const branches = runs.filter(({ goesOn }) => !goesOn).length;
  return `Tree of ${counted(branches, "branch", "branches")} in ${counted(lanes, "lane")}, ${counted(runs.length, "run")} of calls. Left and right move by run, Enter selects.`;
}
