// The drift strip: one number a sampled token, in the order of sampling; its envelope zoomed out.

import { follow, makeStage, slid, wheelFactor, zoomed } from "./canvas.js";
import { envelope, logLevel, logTicks } from "./drift.js";
import { grouped, short } from "./text.js";
import { fade, isClipped, metricBar } from "./theme.js";

const MARGIN = { left: 52, right: 14, top: 20, bottom: 22 };
const CLOSEST = 12; // targets that the closest zoom shows
const BELOW = new Set(["view", "true", "agent"]); // numbers that are never above 0
const STRIP = 5; // CSS pixels of the line that marks diverging tokens
const CAP = 3; // CSS pixels of what marks a bar whose number lies beyond the colours

/** Builds the pane; `bench` is the shared state of the workbench. */
export function driftPane(bench) {
  const pane = { ...makeStage("mw-drift"), view: null };
  const most = () => Math.max(bench.model.targets, 1);
  const setView = (view) => {
    pane.view = view ? { ...view } : { x0: 0, x1: most() };
    bench.repaint();
  };
  const zoomAbout = (left, factor) => {
    const { x0, x1 } = pane.view;
    const [a, b] = zoomed(x0, x1, placing(pane).wx(left), factor, { least: 0, most: most(), size: CLOSEST });
    setView({ x0: a, x1: b });
  };
  follow(pane.stage, {
    ready: () => bench.model && pane.size,
    grab: () => ({ ...pane.view }),
    hover: (point) => bench.point(point && markAt(bench, pane, point), pane.stage, point),
    click: (point) => bench.choose(markAt(bench, pane, point)),
    reset: () => setView(null),
    drag: (from, point, kept) => {
      const by = (point.left - from.left) / placing({ ...pane, view: kept }).sx;
      const [x0, x1] = slid(kept.x0 - by, kept.x1 - by, 0, most());
      setView({ x0, x1 });
    },
    wheel: (event, point) => {
      const { x0, x1 } = pane.view;
      zoomAbout(point.left, wheelFactor(event));
      bench.point(markAt(bench, pane, point), pane.stage, point);
      return pane.view.x0 !== x0 || pane.view.x1 !== x1;
    },
  });
  return {
    stage: pane.stage,
    get view() {
      return pane.view;
    },
    setView,
    bounds: () => ({ x0: 0, x1: most() }),
    draw: () => draw(bench, pane),
    zoom: (factor) => zoomAbout(pane.size.width / 2, factor),
    pan(right) {
      const { x0, x1 } = pane.view;
      const [a, b] = slid(x0 + right * (x1 - x0), x1 + right * (x1 - x0), 0, most());
      setView({ x0: a, x1: b });
    },
    reset: () => setView(null),
    show(mark) {
      if (!mark || mark.target === null || !pane.view) return;
      const { x0, x1 } = pane.view;
      if (mark.target >= x0 && mark.target < x1) return;
      const [a, b] = slid(mark.target - (x1 - x0) / 2, mark.target + (x1 - x0) / 2, 0, most());
      setView({ x0: a, x1: b });
    },
    step(by) {
      const at = (bench.hover ?? bench.selected)?.target ?? -1;
      const target = Math.min(Math.max(at + by, 0), bench.model.targets - 1);
      bench.point(bench.completed({ target }), null);
    },
    spot: (mark) => ({ left: mark.target === null ? MARGIN.left : placing(pane).px(mark.target + 0.5), top: 10 }),
  };
}

function placing({ size, view }) {
  const width = Math.max(Math.floor(size.width) - MARGIN.left - MARGIN.right, 1);
  const height = Math.max(Math.floor(size.height) - MARGIN.top - MARGIN.bottom, 1);
  const sx = width / (view.x1 - view.x0);
  return { width, height, sx, px: (target) => MARGIN.left + (target - view.x0) * sx, wx: (left) => view.x0 + (left - MARGIN.left) / sx };
}

// The target under the pointer: the one with the most to show in its pixel.
function markAt(bench, pane, point) {
  const place = placing(pane);
  const inside = point.left >= MARGIN.left && point.left < MARGIN.left + place.width;
  if (!inside || !bench.model.targets) return null;
  const { metric } = bench.under;
  const from = Math.floor(place.wx(point.left));
  const to = Math.max(Math.ceil(place.wx(point.left + 1)), from + 1);
  let best = Math.min(from, bench.model.targets - 1);
  for (let t = from; t < Math.min(to, bench.model.targets); t++) {
    if (Math.abs(metric.level(t)) > Math.abs(metric.level(best))) best = t;
  }
  return bench.completed({ target: best });
}

function draw(bench, pane) {
  pane.size = pane.fit();
  if (!pane.size) return;
  const { context, size } = pane;
  const { theme } = bench;
  const { metric } = bench.under;
  const place = placing(pane);
  const { signed } = metric;
  const zero = signed ? MARGIN.top + (place.height - STRIP) / 2 : MARGIN.top + place.height - STRIP - 1;
  const reach = signed ? (place.height - STRIP) / 2 : place.height - STRIP - 1;
  const py = (level) => zero - level * reach;
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, size.width, size.height);
  context.font = `12px ${theme.font}`;
  const parts = partsOf(bench, pane, place);
  drawBare(context, theme, place, parts.bare);
  drawScale(context, theme, place, metric, py);
  drawRules(bench, context, pane, place);
  drawMarks(bench, context, pane, place);
  if (place.sx >= 2) drawBars(bench, context, pane, place, py, zero);
  else drawEnvelope(context, theme, metric, parts, py, zero);
  drawDiverging(context, theme, place, parts.differ);
}

// The envelope and where tokens diverge, computed once for what is in sight.
function partsOf({ under, model }, pane, place) {
  const { x0, x1 } = pane.view;
  const state = [x0, x1, place.width].join();
  if (pane.parts?.state === state && pane.parts.under === under) return pane.parts;
  const differ = new Uint8Array(place.width);
  for (let x = 0; x < place.width; x++) {
    const from = Math.max(Math.floor(x0 + x / place.sx), 0);
    const to = Math.min(Math.max(Math.ceil(x0 + (x + 1) / place.sx), from + 1), model.targets);
    for (let t = from; t < to && !differ[x]; t++) differ[x] = under.diverges[t];
  }
  pane.parts = { ...envelope(under.metric, x0, x1, place.width), differ, state, under };
  return pane.parts;
}

// Where the view trains nothing, the strip is grey: coverage at a glance.
function drawBare(context, theme, place, bare) {
  for (let x = 0; x < place.width; x++) {
    if (!bare[x]) continue;
    context.fillStyle = fade(theme.ink, 0.07 * bare[x]);
    context.fillRect(MARGIN.left + x, MARGIN.top, 1, place.height);
  }
}

function drawScale(context, theme, place, metric, py) {
  if (metric.awaited) return;
  const { signed, low, scale, even, unit, banded } = metric;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const last = { 1: Infinity, [-1]: Infinity };
  for (const size of even ? [scale] : logTicks(low, scale)) {
    const level = even ? 1 : logLevel(size, low, scale);
    for (const sign of signed ? [1, -1] : [1]) {
      const y = Math.round(py(sign * level));
      context.fillStyle = fade(theme.ink, 0.1);
      context.fillRect(MARGIN.left, y, place.width, 1);
      if (Math.abs(y - last[sign]) < 14 || (signed && Math.abs(y - py(0)) < 7)) continue;
      context.fillStyle = fade(theme.ink, 0.72);
      context.fillText(`${markOf(metric, sign)}${even ? rough(size) : size}`, MARGIN.left - 7, y);
      last[sign] = y;
    }
  }
  context.fillStyle = fade(theme.ink, 0.72);
  context.fillText(unit, MARGIN.left - 7, 7);
  if (!banded) return;
  context.fillStyle = fade(theme.ink, 0.16);
  const [top, bottom] = [py(0.05), signed ? py(-0.05) : py(0)];
  context.fillRect(MARGIN.left, top, place.width, bottom - top);
}

// Bars of log-probabilities stand up, although the numbers are below zero.
function markOf({ kind, signed }, sign) {
  if (signed) return sign > 0 ? "+" : "−";
  return BELOW.has(kind) ? "−" : "";
}

/** A number in at most three digits, or as 12.3k. */
const rough = (number) => (number >= 100 ? short(number) : String(Number(number.toPrecision(3))));

function drawRules(bench, context, pane, place) {
  const { theme, model } = bench;
  const { first } = model.tree.targets;
  context.textBaseline = "top";
  context.textAlign = "left";
  const thin = (model.evictions.length * (pane.view.x1 - pane.view.x0)) / model.targets > place.width / 24;
  for (const [i, { call, kind }] of model.evictions.entries()) {
    const x = Math.round(place.px(first[call]));
    if (x < MARGIN.left || x > MARGIN.left + place.width) continue;
    context.strokeStyle = fade(theme.ink, thin ? 0.18 : 0.5);
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x + 0.5, MARGIN.top);
    context.lineTo(x + 0.5, MARGIN.top + place.height);
    context.stroke();
    context.setLineDash([]);
    const words = kind.replaceAll("_", " ");
    const next = model.evictions[i + 1];
    const room = Math.min(next ? place.px(first[next.call]) : Infinity, MARGIN.left + place.width) - x;
    if (context.measureText(words).width + 8 > room) continue;
    context.fillStyle = fade(theme.ink, 0.72);
    context.fillText(words, x, 3);
  }
  drawCalls(bench, context, pane, place);
}

function drawCalls({ theme, model }, context, pane, place) {
  const { first } = model.tree.targets;
  context.fillStyle = fade(theme.ink, 0.72);
  context.textBaseline = "top";
  context.textAlign = "left";
  let last = -Infinity;
  for (let call = 0; call + 1 < first.length; call++) {
    if (first[call] === first[call + 1] || first[call] > pane.view.x1 || first[call + 1] <= pane.view.x0) continue;
    const x = Math.max(place.px(first[call]), MARGIN.left);
    const label = last === -Infinity ? `call ${call}` : String(call);
    if (x - last < 14 || x > MARGIN.left + place.width - 24) continue;
    context.fillRect(Math.round(x), MARGIN.top + place.height, 1, 4);
    context.fillText(label, x + 3, MARGIN.top + place.height + 5);
    last = x + 3 + context.measureText(label).width;
  }
}

function drawBars(bench, context, pane, place, py, zero) {
  const { metric } = bench.under;
  const gap = place.sx > 4 ? 1 : 0;
  for (let t = Math.max(Math.floor(pane.view.x0), 0); t < Math.min(pane.view.x1, metric.count); t++) {
    const level = metric.level(t);
    if (!level) continue;
    drawBar(context, bench.theme, metric, { level, left: place.px(t), width: place.sx - gap }, py, zero);
  }
}

function drawEnvelope(context, theme, metric, { least, most }, py, zero) {
  for (let x = 0; x < least.length; x++) {
    for (const level of [most[x], least[x]]) {
      if (level) drawBar(context, theme, metric, { level, left: MARGIN.left + x, width: 1 }, py, zero);
    }
  }
}

// A bar as tall as its number; capped with ink where that lies beyond the colours.
function drawBar(context, theme, metric, { level, left, width }, py, zero) {
  const y = py(level);
  context.fillStyle = metricBar(metric, level, theme);
  context.fillRect(left, Math.min(y, zero), Math.max(width, 1), Math.max(Math.abs(zero - y), 1));
  if (!isClipped(metric, level)) return;
  context.fillStyle = theme.ink;
  context.fillRect(left, level > 0 ? y : y - CAP, Math.max(width, 1), CAP);
}

function drawDiverging(context, theme, place, differ) {
  context.fillStyle = theme.leak;
  const y = MARGIN.top + place.height - STRIP + 1;
  differ.forEach((any, x) => any && context.fillRect(MARGIN.left + x, y, 1, STRIP - 1));
}

function drawMarks(bench, context, pane, place) {
  const { first } = bench.model.tree.targets;
  for (const [mark, colour, thick] of [[bench.selected, bench.theme.accent, 2], [bench.hover, fade(bench.theme.ink, 0.7), 1]]) {
    if (!mark) continue;
    const x0 = place.px(mark.target ?? first[mark.call]);
    const x1 = place.px(mark.target === null ? first[mark.call + 1] : mark.target + 1);
    if (x1 < MARGIN.left || x0 > MARGIN.left + place.width) continue;
    context.fillStyle = mark.target === null ? fade(bench.theme.ink, 0.08) : colour;
    context.globalAlpha = mark.target === null || x1 - x0 <= 3 ? 1 : 0.3;
    const left = Math.max(x0, MARGIN.left);
    const width = Math.max(Math.min(x1, MARGIN.left + place.width) - left, thick);
    context.fillRect(left, MARGIN.top, width, place.height);
    context.globalAlpha = 1;
  }
}

/** What the strip shows, for a screen reader. */
export function driftLabel({ model, under }) {
  const { metric, diverges } = under;
  const differ = diverges.reduce((sum, flag) => sum + flag, 0);
  const most = `${rough(metric.scale)} ${metric.unit}`;
  return (
    `Strip of one number a sampled token, ${metric.words}, of ${grouped(model.targets)} under ${under.view.name}, its size up to ${most}; ` +
    `${grouped(differ)} diverge. Left and right move, d goes to the largest drift, Enter selects.`
  );
}
