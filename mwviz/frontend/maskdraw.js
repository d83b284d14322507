// What stands around and over the mask's picture: axes, leak and drift tracks, cross hairs.

import { fade } from "./theme.js";
import { grouped, short } from "./text.js";

export const MARGIN = { left: 52, right: 26, top: 18, bottom: 34 };
const TRACKS = { drift: "drift", size: "drift", view: "log p", true: "log p", agent: "log p", gap: "gap", entropy: "entropy", change: "entropy", kl: "KL", terms: "terms", weight: "weight", advantage: "gain", beside: "B - A" };
const TRACK = 12; // CSS pixels of the leak track above the matrix

// Both axes are named by calls: which call wrote the text, which call sampled the token.
export function drawAxes({ theme }, pane, place, axes) {
  const { context, view } = pane;
  context.fillStyle = fade(theme.ink, 0.75);
  context.textBaseline = "middle";
  context.textAlign = "right";
  let last = -Infinity;
  for (const [i, { at, call }] of axes.rowTicks.entries()) {
    const y = place.py(at);
    const end = place.py(axes.rowTicks[i + 1]?.at ?? axes.rows);
    if (y > place.top + place.height || end < place.top) continue;
    const shown = Math.min(Math.max(y, place.top), place.top + place.height);
    if (end - y > 10 && y >= place.top) {
      context.fillStyle = fade(theme.ink, 0.1);
      context.fillRect(place.left, Math.round(y), place.width, 1);
      context.fillStyle = fade(theme.ink, 0.75);
    }
    if (shown - last < 15 || shown > place.top + place.height - 6) continue;
    context.fillText(call < 1000 ? `call ${call}` : grouped(call), place.left - 7, Math.max(shown + 7, place.top + 7));
    last = shown;
  }
  drawKeyAxis(theme, place, view, context, axes);
}

function drawKeyAxis(theme, place, view, context, axes) {
  context.textBaseline = "top";
  context.textAlign = "left";
  const floor = place.top + place.height;
  let last = -Infinity;
  for (const [i, { at, call }] of axes.columnTicks.entries()) {
    const x = place.px(at);
    if (at > view.x1) break;
    const shown = Math.max(x, place.left);
    const end = place.px(axes.columnTicks[i + 1]?.at ?? axes.columns);
    if (end < place.left) continue;
    const label = last === -Infinity ? `call ${call}` : String(call);
    if (shown - last < 12 || shown > place.left + place.width - 12) continue;
    context.fillStyle = fade(theme.ink, 0.4);
    if (x >= place.left) context.fillRect(Math.round(x), floor + 1, 1, 4);
    context.fillStyle = fade(theme.ink, 0.75);
    context.fillText(label, shown + 2, floor + 4);
    last = shown + 2 + context.measureText(label).width;
  }
  context.textAlign = "right";
  context.fillStyle = fade(theme.ink, 0.6);
  const scale = (view.x1 - view.x0) / place.width;
  const tall = (view.y1 - view.y0) / place.height;
  const about = scale <= 1 && tall <= 1 ? "exact: a token is a pixel or more" : `1 pixel = ${short2(scale)} × ${short2(tall)} tokens`;
  context.fillText(about, place.left + place.width, floor + 19);
  const room = place.width - context.measureText(about).width - 12;
  context.textAlign = "left";
  if (context.measureText(axes.words).width < room) context.fillText(axes.words, place.left, floor + 19);
}

const short2 = (number) => (number >= 10 ? short(number) : String(Math.round(number * 10) / 10));

/** Heights of the tracks beside the matrix: per pixel column and row the largest count inside. */
export function tracksOf({ under }, axes, view, place) {
  const { leaks } = under;
  const most = Math.log1p(leaks.mostByKey);
  const peaks = (length, from, size, count, highest) =>
    Float32Array.from({ length }, (_, i) => {
      const a = Math.max(Math.floor(from + i * size), 0);
      return highest(a, Math.min(Math.max(Math.ceil(from + (i + 1) * size), a + 1), count));
    });
  const above = peaks(place.width, view.x0, 1 / place.sx, axes.columns, axes.leaks);
  return {
    above: above.map((count) => (count ? Math.log1p(count) / most : 0)),
    beside: peaks(place.height, view.y0, 1 / place.sy, axes.rows, axes.level),
  };
}

/** Above: how many tokens see a key wrongly. Beside: a token's drift, or how many keys it sees wrongly. */
export function drawTracks(bench, { context, tracks }, place) {
  const { theme, under } = bench;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillStyle = fade(theme.ink, 0.6);
  context.fillText("leaks", place.left - 7, place.top - 8);
  context.textAlign = "left";
  const name = TRACKS[under.metric.kind];
  context.textAlign = "right";
  if (name) context.fillText(name, place.left + place.width + MARGIN.right, place.top - 8);
  context.fillStyle = theme.leak;
  tracks.above.forEach((share, x) => {
    const high = 1 + (TRACK - 1) * share;
    if (share) context.fillRect(place.left + x, place.top - 3 - high, 1, high);
  });
  context.fillStyle = name ? fade(theme.ink, 0.7) : theme.leak;
  tracks.beside.forEach((level, y) => {
    if (level) context.fillRect(place.left + place.width + 4, place.top + y, Math.max(level * (MARGIN.right - 8), 1), 1);
  });
}

/** Lines through the row and the column of `mark`, where it has them. */
export function drawCross(bench, pane, place, axes, { mark, colour, thick }) {
  if (!mark) return;
  const { context } = pane;
  const { x: column, y: row } = axes.where(mark);
  const band = mark.target === null ? axes.band(mark) : null;
  context.save();
  context.beginPath();
  context.rect(place.left, place.top, place.width, place.height);
  context.clip();
  if (band) {
    context.fillStyle = fade(bench.theme.ink, 0.08);
    const [y0, y1] = band.map(place.py);
    context.fillRect(place.left, y0, place.width, Math.max(y1 - y0, 1));
  }
  context.fillStyle = colour;
  const line = (at, scale) => [at - Math.max((thick - scale) / 2, 0), Math.max(scale, thick)];
  context.globalAlpha = 0.85;
  if (row !== null) {
    const [y, high] = line(place.py(row), place.sy);
    if (high <= 3) context.fillRect(place.left, y, place.width, high);
    else frame(context, place.left - 2, y, place.width + 4, high, colour, thick);
  }
  if (column !== null) {
    const [x, wide] = line(place.px(column), place.sx);
    if (wide <= 3) context.fillRect(x, place.top, wide, place.height);
    else frame(context, x, place.top - 2, wide, place.height + 4, colour, thick);
  }
  context.restore();
}

function frame(context, x, y, width, height, colour, thick) {
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.strokeRect(x, y, width, height);
}

const MAP = { width: 96, height: 64, inset: 8 };

/** The whole mask in a corner with a frame around what is in sight; nothing where all of it is. */
export function drawMap({ theme }, pane, place, { columns, rows }, paint) {
  const { x0, x1, y0, y1 } = pane.view;
  const shares = [x0 / columns, y0 / rows, (x1 - x0) / columns, (y1 - y0) / rows];
  if (shares[2] > 0.99 && shares[3] > 0.99) return;
  if (place.width < 3 * MAP.width || place.height < 3 * MAP.height) return;
  const { context } = pane;
  const left = place.left + place.width - MAP.width - MAP.inset;
  const top = place.top + MAP.inset;
  context.fillStyle = theme.background;
  context.fillRect(left - 3, top - 3, MAP.width + 6, MAP.height + 6);
  context.drawImage(paint(MAP.width, MAP.height), left, top, MAP.width, MAP.height);
  context.lineWidth = 1;
  context.strokeStyle = fade(theme.ink, 0.4);
  context.strokeRect(left - 0.5, top - 0.5, MAP.width + 1, MAP.height + 1);
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  const [x, y, wide, high] = shares;
  context.strokeRect(left + x * MAP.width, top + y * MAP.height, Math.max(wide * MAP.width, 3), Math.max(high * MAP.height, 3));
}
