// Draws the timeline's geometry on a 2-D canvas context; keeps nothing between frames.

import { MARGIN, drawAxes } from "./axes.js";
import { drawFound } from "./drawfound.js";
import { lastAtMost } from "./sorted.js";
import { paintSpans } from "./spanraster.js";
import { fitted, visible } from "./text.js";
import { channels, fade, mix } from "./theme.js";

const LABEL_WIDTH = 84; // pixels from which a rectangle shows its first words
const LABEL_HEIGHT = 15;

/** Functions between world units and CSS pixels for a canvas of `size`. */
export function projection(view, size) {
  const width = Math.max(size.width - MARGIN.left - MARGIN.right, 1);
  const height = Math.max(size.height - MARGIN.top - MARGIN.bottom, 1);
  const scaleX = width / (view.x1 - view.x0);
  const scaleY = height / (view.y1 - view.y0);
  return {
    width,
    height,
    scaleX,
    scaleY,
    px: (x) => MARGIN.left + (x - view.x0) * scaleX,
    py: (y) => MARGIN.top + height - (y - view.y0) * scaleY,
    wx: (left) => view.x0 + (left - MARGIN.left) / scaleX,
    wy: (top) => view.y0 + (MARGIN.top + height - top) / scaleY,
  };
}

/**
 * One frame: the picture of everything but the marks, kept in `pane.base` while nothing but them
 * changes, and the marks over it. `scene` holds tree, layout, view, size {width, height, ratio},
 * theme, and what is under the pointer (`hover`) and chosen (`selected`), or null.
 */
export function draw(pane, scene) {
  const { context } = pane;
  const { size, view, theme } = scene;
  const place = projection(view, size);
  const state = JSON.stringify([view, size, theme, scene.method, scene.found && [scene.found.query, scene.found.at]]);
  if (pane.drawn !== state || pane.drawnLayout !== scene.layout) {
    pane.base ??= document.createElement("canvas");
    [pane.base.width, pane.base.height] = [pane.canvas.width, pane.canvas.height];
    drawBase(pane.base.getContext("2d"), scene, place, (pane.sheet ??= document.createElement("canvas")));
    Object.assign(pane, { drawn: state, drawnLayout: scene.layout });
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(pane.base, 0, 0);
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, MARGIN.top, place.width, place.height);
  context.clip();
  drawMarks(context, scene, place);
  context.restore();
}

function drawBase(context, scene, place, sheet) {
  context.setTransform(scene.size.ratio, 0, 0, scene.size.ratio, 0, 0);
  context.fillStyle = scene.theme.background;
  context.fillRect(0, 0, scene.size.width, scene.size.height);
  context.font = `12px ${scene.theme.font}`;
  drawAxes(context, scene, place);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, MARGIN.top, place.width, place.height);
  context.clip();
  for (const cut of scene.layout.cuts) if (cut.evicts) drawFall(context, scene, place, cut);
  drawSpans(context, scene, place, sheet);
  const strength = cliffStrength(scene, place);
  for (const cut of scene.layout.cuts) drawCliff(context, scene, place, cut, strength);
  if (scene.found) drawFound(context, scene, place);
  context.restore();
  drawCutMarks(context, scene, place);
  drawLeaks(context, scene, place);
}

/** The rectangle of `span` in pixels, at least one pixel wide; null outside the view. */
export function rectangle(span, scene, place) {
  const { view, tree, layout } = scene;
  const bottom = layout.lanes[span.lane].base + tree.segments.depth[span.segment];
  const top = bottom + tree.segments.length[span.segment];
  if (span.to <= view.x0 || span.from >= view.x1 || top <= view.y0 || bottom >= view.y1) return null;
  const left = Math.round(place.px(span.from));
  const [upper, height] = snapped(place.py(top), place.py(bottom));
  return { left, top: upper, width: Math.max(Math.round(place.px(span.to)) - left, 1), height };
}

// Edges on whole pixels, but thin strips stay as thin as they are: their colours mix by area.
function snapped(top, bottom) {
  if (bottom - top < 1.5) return [top, bottom - top];
  return [Math.round(top), Math.round(bottom) - Math.round(top)];
}

function drawSpans(context, scene, place, sheet) {
  const { theme, size, layout } = scene;
  const boxes = new Map();
  const boxOf = (span) => {
    const box = rectangle(span, scene, place);
    if (box && box.width >= LABEL_WIDTH) boxes.set(span, box);
    return box;
  };
  const hatched = (colour) => ({ base: channels(mix(colour, theme.background, 0.35)), shade: channels(mix(colour, theme.ink, theme.dark ? 0.3 : 0.22)) });
  const fills = {
    given: { base: channels(theme.given) },
    sampled: { base: channels(theme.sampled) },
    given_copy: hatched(theme.given),
    sampled_copy: hatched(theme.sampled),
  };
  const [wide, high] = [context.canvas.width, context.canvas.height];
  if (sheet.width !== wide) sheet.width = wide;
  if (sheet.height !== high) sheet.height = high;
  const brush = sheet.getContext("2d");
  const image = brush.createImageData(wide, high);
  const seam = channels(mix(theme.background, theme.ink, 0.04));
  const inks = scene.tree.kinds.map((kind) => fills[kind]);
  paintSpans({ tree: scene.tree, spans: layout.spans, boxOf, inks, seam, background: channels(theme.background), ratio: size.ratio }, image);
  brush.putImageData(image, 0, 0);
  context.drawImage(sheet, 0, 0, size.width, size.height);
  for (const [span, box] of boxes) drawLabel(context, scene, place, span, box);
}

// The segment's first words, in its lowest run of one kind.
function drawLabel(context, scene, place, span, box) {
  const { segments, runs, text } = scene.tree;
  const start = segments.start[span.segment];
  const length = segments.length[span.segment];
  const next = runs.start[lastAtMost(runs.start, start) + 1] ?? scene.tree.nodes;
  const height = Math.min(next - start, length) * place.scaleY;
  if (height < LABEL_HEIGHT) return;
  const left = Math.max(box.left, MARGIN.left) + 6;
  const right = Math.min(box.left + box.width, MARGIN.left + place.width) - 6;
  const bottom = Math.min(box.top + box.height, MARGIN.top + place.height);
  context.save();
  context.beginPath();
  context.rect(left, box.top, right - left, box.height);
  context.clip();
  context.fillStyle = fade(scene.theme.ink, 0.85);
  context.textBaseline = "middle";
  context.textAlign = "left";
  const words = text(start, start + Math.min(length, Math.ceil((right - left) / 8)));
  const shown = fitted(visible(words).slice(0, 300), right - left, (told) => context.measureText(told).width);
  context.fillText(shown, left, bottom - Math.min(height, 40) / 2);
  context.restore();
}

// What was evicted falls away to the right of the cut, from its old height to the branch depth.
function drawFall(context, scene, place, cut) {
  const left = place.px(cut.call);
  const width = Math.min(Math.max(2.6 * place.scaleX, 16), 90);
  if (left + width < MARGIN.left || left > MARGIN.left + place.width) return;
  const base = scene.layout.lanes[cut.lane].base;
  const top = place.py(base + cut.top);
  const bottom = place.py(base + cut.depth);
  if (bottom - top < 2) return;
  const glow = context.createLinearGradient(left, 0, left + width, 0);
  glow.addColorStop(0, fade(scene.theme.fall, 0.45));
  glow.addColorStop(0.5, fade(scene.theme.fall, 0.16));
  glow.addColorStop(1, fade(scene.theme.fall, 0));
  context.fillStyle = glow;
  context.beginPath();
  context.moveTo(left, top);
  context.bezierCurveTo(left + 0.5 * width, top, left + 0.45 * width, bottom, left + width, bottom);
  context.lineTo(left, bottom);
  context.fill();
}

// Cliffs that stand close together are drawn fainter, so that they do not hide the contexts.
function cliffStrength({ layout, view }, place) {
  const shown = layout.cuts.filter((cut) => cut.call >= view.x0 && cut.call <= view.x1).length;
  return Math.min(Math.max(place.width / Math.max(shown, 1) / 14, 0.2), 1);
}

function drawCliff(context, scene, place, cut, strength) {
  const left = Math.round(place.px(cut.call));
  if (left < MARGIN.left || left > MARGIN.left + place.width) return;
  const base = scene.layout.lanes[cut.lane].base;
  const [top, tail, bottom] = [cut.top, cut.tail, cut.depth].map((depth) => place.py(base + depth));
  context.fillStyle = fade(scene.theme.ink, 0.75 * strength);
  context.fillRect(left - 1, top, 1.5, Math.max(Math.max(tail, top) - top, 0));
  context.fillStyle = fade(scene.theme.ink, 0.4 * strength);
  context.fillRect(left - 1, Math.max(tail, top), 1, bottom - Math.max(tail, top));
}

// A mark above each change of context: filled where something was evicted, hollow where not.
function drawCutMarks(context, scene, place) {
  const ink = fade(scene.theme.ink, 0.75);
  context.fillStyle = context.strokeStyle = ink;
  context.lineWidth = 1;
  let last = -Infinity;
  for (const { call, evicts } of scene.junctions) {
    const x = place.px(call);
    if (x < MARGIN.left || x > MARGIN.left + place.width || x - last < 5) continue;
    last = x;
    context.beginPath();
    context.moveTo(x - 4, MARGIN.top - 9);
    context.lineTo(x + 4, MARGIN.top - 9);
    context.lineTo(x, MARGIN.top - 3);
    context.closePath();
    if (evicts) context.fill();
    else context.stroke();
  }
}

// Below each call: the share of its tokens that the training view makes see the wrong text.
function drawLeaks(context, { theme, leaks, view }, place) {
  const floor = MARGIN.top + place.height;
  for (let call = Math.max(Math.floor(view.x0), 0); call < Math.min(view.x1, leaks.length); call++) {
    if (!leaks[call]) continue;
    const left = Math.max(place.px(call), MARGIN.left);
    const right = Math.min(place.px(call + 1), MARGIN.left + place.width);
    context.fillStyle = fade(theme.leak, 0.35 + 0.65 * leaks[call]);
    context.fillRect(left, floor + 1, Math.max(right - left - (place.scaleX > 6 ? 1 : 0), 1), 4);
  }
}

function drawMarks(context, scene, place) {
  const { hover, selected, theme } = scene;
  if (hover) outline(context, scene, place, hover, fade(theme.ink, 0.9), 1.5);
  if (selected) outline(context, scene, place, selected, theme.accent, 2.5);
  if (selected) pin(context, scene, place, selected, theme.accent);
  if (hover) pin(context, scene, place, hover, theme.ink);
}

// Where in its call's context a marked token stands.
function pin(context, scene, place, mark, colour) {
  const depth = scene.depthOf(mark);
  if (depth === null) return;
  const y = place.py(scene.layout.lanes[mark.lane].base + depth + 0.5);
  context.fillStyle = colour;
  context.fillRect(place.px(mark.call) - 5, y - 1.5, Math.max(place.scaleX, 1) + 10, 3);
}

function outline(context, scene, place, mark, colour, thickness) {
  const left = place.px(mark.call);
  const width = Math.max(place.scaleX, 1);
  context.fillStyle = fade(scene.theme.ink, 0.09);
  context.fillRect(left, MARGIN.top, width, place.height);
  context.strokeStyle = colour;
  context.lineWidth = thickness;
  for (const span of scene.layout.spans) {
    if (span.segment !== mark.segment || span.lane !== mark.lane) continue;
    const box = rectangle(span, scene, place);
    if (!box) continue;
    const inset = thickness / 2;
    context.strokeRect(
      box.left + inset,
      box.top + inset,
      Math.max(box.width - thickness, 1),
      Math.max(box.height - thickness, 1),
    );
  }
}
