// The mask pane: who sees what, in time order (sampled tokens down, all text across) or packed order.

import { follow, makeStage, slid, wheelFactor, zoomed } from "./canvas.js";
import { NAMES } from "./classes.js";
import { maskAxes } from "./maskaxes.js";
import { MARGIN, drawAxes, drawCross, drawMap, drawTracks, tracksOf } from "./maskdraw.js";
import { raster, worstIn } from "./pixels.js";
import { counted } from "./text.js";
import { classColours, fade } from "./theme.js";
import { element } from "./tooltip.js";

const CLOSEST = 12; // tokens that the closest zoom shows

/** Builds the pane; `bench` is the shared state of the workbench. */
export function maskPane(bench) {
  const made = makeStage("mw-mask");
  const pane = { ...made, view: null, picture: element("canvas", "mw-picture"), painted: "" };
  pane.picture.setAttribute("aria-hidden", "true");
  pane.stage.prepend(pane.picture);
  const bounds = () => ({ x0: 0, x1: Math.max(axesOf(bench, pane).columns, 1), y0: 0, y1: Math.max(axesOf(bench, pane).rows, 1) });
  const setView = (view) => {
    pane.view = { ...view };
    bench.repaint();
  };
  const zoomAbout = (point, factor) => {
    const place = placing(pane);
    const all = bounds();
    const [x0, x1] = zoomed(pane.view.x0, pane.view.x1, place.wx(point.left), factor, { least: 0, most: all.x1, size: CLOSEST });
    const [y0, y1] = zoomed(pane.view.y0, pane.view.y1, place.wy(point.top), factor, { least: 0, most: all.y1, size: CLOSEST });
    setView({ x0, x1, y0, y1 });
  };
  follow(pane.stage, {
    ready: () => bench.model && pane.size,
    grab: () => ({ ...pane.view }),
    hover: (point) => bench.point(point && cellAt(bench, pane, point), pane.stage, point),
    click: (point) => bench.choose(cellAt(bench, pane, point)),
    reset: () => setView(bounds()),
    drag: (from, point, kept) => {
      const place = placing({ ...pane, view: kept });
      const [x0, x1] = slid(kept.x0 - (point.left - from.left) / place.sx, kept.x1 - (point.left - from.left) / place.sx, 0, bounds().x1);
      const [y0, y1] = slid(kept.y0 - (point.top - from.top) / place.sy, kept.y1 - (point.top - from.top) / place.sy, 0, bounds().y1);
      setView({ x0, x1, y0, y1 });
    },
    wheel: (event, point) => {
      const before = JSON.stringify(pane.view);
      zoomAbout(point, wheelFactor(event));
      bench.point(cellAt(bench, pane, point), pane.stage, point);
      return JSON.stringify(pane.view) !== before;
    },
  });
  return {
    stage: pane.stage,
    get view() {
      return pane.view;
    },
    setView: (view) => setView(view ?? bounds()),
    bounds,
    stale: () => Object.assign(pane, { painted: "", smallState: "", axes: null }),
    window: () => inSight(pane, axesOf(bench, pane)),
    get axes() {
      return axesOf(bench, pane);
    },
    picture: () => [pane.picture, pane.canvas],
    draw: () => draw(bench, pane),
    zoom: (factor) => zoomAbout(middle(pane), factor),
    pan(right, down) {
      const { x0, x1, y0, y1 } = pane.view;
      const [a, b] = slid(x0 + right * (x1 - x0), x1 + right * (x1 - x0), 0, bounds().x1);
      const [c, d] = slid(y0 + down * (y1 - y0), y1 + down * (y1 - y0), 0, bounds().y1);
      setView({ x0: a, x1: b, y0: c, y1: d });
    },
    reset: () => setView(bounds()),
    exact: () => setView(exactView(pane, bounds(), focus(bench, pane))),
    show: (mark) => reveal(bench, pane, mark, setView, bounds()),
    step: (dx, dy) => step(bench, pane, dx, dy),
    inside: () => ({ ...box(pane.size), size: pane.size }),
    spot: (mark) => spotOf(bench, pane, mark),
  };
}

// The axes of the view and order that are shown; made once for each.
function axesOf(bench, pane) {
  const { model, under, order } = bench;
  if (pane.axes?.under !== under || pane.axes.wanted !== order) {
    pane.axes = { ...ordered(model, under, order), under, wanted: order };
  }
  return pane.axes;
}

function ordered(model, under, order) {
  try {
    return maskAxes(model, under, order);
  } catch (error) {
    return { ...maskAxes(model, under, "time"), refused: error.message };
  }
}

// The part in sight in whole tokens.
function inSight({ view }, { rows, columns }) {
  const inside = (low, high, most) => [Math.max(Math.floor(low), 0), Math.min(Math.ceil(high), most)];
  const [x0, x1] = inside(view.x0, view.x1, columns);
  const [y0, y1] = inside(view.y0, view.y1, rows);
  return { x0, x1, y0, y1 };
}

function box(size) {
  return { left: MARGIN.left, top: MARGIN.top, width: Math.max(Math.floor(size.width) - MARGIN.left - MARGIN.right, 1), height: Math.max(Math.floor(size.height) - MARGIN.top - MARGIN.bottom, 1) };
}

function placing({ size, view }) {
  const { left, top, width, height } = box(size);
  const sx = width / (view.x1 - view.x0);
  const sy = height / (view.y1 - view.y0);
  return {
    left, top, width, height, sx, sy,
    px: (key) => left + (key - view.x0) * sx,
    py: (target) => top + (target - view.y0) * sy,
    wx: (x) => view.x0 + (x - left) / sx,
    wy: (y) => view.y0 + (y - top) / sy,
  };
}

const middle = (pane) => ({ left: MARGIN.left + box(pane.size).width / 2, top: MARGIN.top + box(pane.size).height / 2 });

// The part around a cell in which one CSS pixel is one token, or all of it where that is less.
function exactView(pane, bounds, { key, target }) {
  const { width, height } = box(pane.size);
  const around = (at, room, most) => (room >= most ? [0, room] : slid(Math.round(at - room / 2), Math.round(at - room / 2) + room, 0, most).map(Math.round));
  const [x0, x1] = around(key, width, bounds.x1);
  const [y0, y1] = around(target, height, bounds.y1);
  return { x0, x1, y0, y1 };
}

function focus(bench, pane) {
  const mark = bench.hover ?? bench.selected;
  const found = mark ? axesOf(bench, pane).where(mark) : { x: null, y: null };
  return { target: found.y ?? Math.round((pane.view.y0 + pane.view.y1) / 2), key: found.x ?? Math.round((pane.view.x0 + pane.view.x1) / 2) };
}

// The worst cell under a pixel, as a mark; null outside the matrix.
function cellAt(bench, pane, point) {
  const place = placing(pane);
  const axes = axesOf(bench, pane);
  const inside = point.left >= place.left && point.left < place.left + place.width && point.top >= place.top && point.top < place.top + place.height;
  if (!inside) return null;
  const [x, y] = [Math.floor(point.left - place.left), Math.floor(point.top - place.top)];
  const low = pane.view.x0 + x / place.sx;
  const from = pane.view.y0 + y / place.sy;
  if (low >= axes.columns || from >= axes.rows) return null;
  const found = worstIn(axes.judged, from, Math.min(from + 1 / place.sy, axes.rows), low, Math.min(low + 1 / place.sx, axes.columns));
  return bench.completed(axes.at(found.target, found.key));
}

function draw(bench, pane) {
  pane.size = pane.fit();
  if (!pane.size) return;
  const { context, size } = pane;
  const { theme } = bench;
  const place = placing(pane);
  const axes = axesOf(bench, pane);
  paintPicture(bench, pane, place);
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.font = `12px ${theme.font}`;
  context.strokeStyle = fade(theme.ink, 0.25);
  context.lineWidth = 1;
  context.strokeRect(place.left - 0.5, place.top - 0.5, place.width + 1, place.height + 1);
  drawAxes(bench, pane, place, axes);
  drawTracks(bench, pane, place);
  drawMap(bench, pane, place, axes, (width, height) => smallPicture(bench, pane, width, height));
  drawCross(bench, pane, place, axes, { mark: bench.selected, colour: theme.accent, thick: 1.5 });
  drawCross(bench, pane, place, axes, { mark: bench.hover, colour: fade(theme.ink, 0.75), thick: 1 });
}

function fill({ overlay, mode, theme }, judged, canvas, view, ratio) {
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(canvas.width, canvas.height);
  raster(judged, view, image, { overlay, mode, colours: classColours(theme, NAMES), step: Math.round(6 * ratio) });
  brush.putImageData(image, 0, 0);
}

// The whole mask, small; painted again only where something else than the view has changed.
function smallPicture(bench, pane, width, height) {
  const { overlay, theme, under } = bench;
  const axes = axesOf(bench, pane);
  const state = [under.view.name, overlay, theme.background, axes.order, axes.columns, axes.rows].join();
  pane.small ??= document.createElement("canvas");
  if (pane.smallState === state) return pane.small;
  pane.smallState = state;
  [pane.small.width, pane.small.height] = [width, height];
  fill({ ...bench, mode: "worst" }, axes.judged, pane.small, { x0: 0, x1: axes.columns, y0: 0, y1: axes.rows }, 1);
  return pane.small;
}

function paintPicture(bench, pane, place) {
  const { overlay, mode, theme, under } = bench;
  const wide = Math.round(place.width * pane.size.ratio);
  const high = Math.round(place.height * pane.size.ratio);
  const state = JSON.stringify([pane.view, wide, high, overlay, mode, theme.background, under.view.name, under.metric.kind, axesOf(bench, pane).order]);
  if (pane.painted === state) return;
  pane.painted = state;
  if (pane.picture.width !== wide) pane.picture.width = wide;
  if (pane.picture.height !== high) pane.picture.height = high;
  const started = performance.now();
  fill(bench, axesOf(bench, pane).judged, pane.picture, pane.view, pane.size.ratio);
  pane.tracks = tracksOf(bench, axesOf(bench, pane), pane.view, place);
  const { x0, x1, y0, y1 } = pane.view;
  const { dataset, style } = pane.picture;
  Object.assign(dataset, { window: [x0, x1, y0, y1], milliseconds: (performance.now() - started).toFixed(1) });
  Object.assign(style, { left: `${place.left}px`, top: `${place.top}px`, width: `${place.width}px`, height: `${place.height}px` });
}

function reveal(bench, pane, mark, setView, bounds) {
  if (!mark || mark.target === null || !pane.view) return;
  const { x0, x1, y0, y1 } = pane.view;
  const { x, y } = axesOf(bench, pane).where(mark);
  const moved = (low, high, at, most) => (at === null || (at >= low && at < high) ? [low, high] : slid(at - (high - low) / 2, at + (high - low) / 2, 0, most));
  const [nx0, nx1] = moved(x0, x1, x, bounds.x1);
  const [ny0, ny1] = moved(y0, y1, y, bounds.y1);
  setView({ x0: nx0, x1: nx1, y0: ny0, y1: ny1 });
}

function step(bench, pane, dx, dy) {
  const axes = axesOf(bench, pane);
  const at = focus(bench, pane);
  const y = Math.min(Math.max(at.target + dy, 0), axes.rows - 1);
  const x = Math.min(Math.max(at.key + dx, 0), axes.columns - 1);
  bench.point(bench.completed(axes.at(y, x)), null);
}

function spotOf(bench, pane, mark) {
  const place = placing(pane);
  const { x, y } = axesOf(bench, pane).where(mark);
  return { left: x === null ? place.left : place.px(x), top: y === null ? place.top : place.py(y) };
}

/** What the matrix shows, for a screen reader. */
export function maskLabel(bench) {
  const { model, under } = bench;
  const wrong = under.leaks.byTarget.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0);
  return (
    `Who sees what under ${under.view.name}: ${counted(model.targets, "sampled token")} down, ${counted(model.keys, "token")} of text ` +
    `across in the order they were written; ${counted(wrong, "sampled token sees", "sampled tokens see")} text wrongly. Arrow keys move, plus and minus zoom, Enter selects.`
  );
}
