// The timeline's rectangles as pixels: cheap for thousands of them, because nothing is stroked or
// patterned by the canvas. Pure: fills an image, knows no canvas.

import { lastAtMost } from "./sorted.js";

const THIN = 1.5; // pixels; thinner strips mix with what is behind them by their area
const SEAM_HEIGHT = 3;
const SEAM_WIDTH = 6;

/**
 * Fills every span in sight into RGBA `image` {data, width, height}, whose pixels are `ratio` to a
 * CSS pixel. `boxOf(span)` gives its rectangle in CSS pixels or null; `inks`: per kind of run
 * {base, shade} as [r, g, b], with a shade where the run is hatched; `seam`, `background`: [r, g, b].
 */
export function paintSpans({ tree, spans, boxOf, inks, seam, background, ratio }, image) {
  const { data, width: wide, height: high } = image;
  const whole = new Uint32Array(data.buffer);
  const sheet = { data, whole, width: wide, height: high, step: Math.round(6 * ratio), line: Math.max(Math.round(ratio), 1), background };
  const { segments, runs } = tree;
  const edge = { base: seam };
  for (const span of spans) {
    const box = boxOf(span);
    if (!box) continue;
    const [left, width] = [Math.round(box.left * ratio), Math.max(Math.round(box.width * ratio), 1)];
    const start = segments.start[span.segment];
    const end = start + segments.length[span.segment];
    const bottom = (box.top + box.height) * ratio;
    const scale = (box.height * ratio) / (end - start);
    for (let run = lastAtMost(runs.start, start); run < runs.start.length && runs.start[run] < end; run++) {
      const from = Math.max(runs.start[run], start) - start;
      const to = Math.min(runs.start[run + 1] ?? end, end) - start;
      fill(sheet, left, bottom - to * scale, width, (to - from) * scale, inks[runs.kind[run]]);
    }
    if (box.height > SEAM_HEIGHT) fill(sheet, left, box.top * ratio, width, sheet.line, edge, true);
    if (box.width > SEAM_WIDTH) fill(sheet, left, box.top * ratio, sheet.line, box.height * ratio, edge, true);
  }
}

function fill(sheet, left, top, width, height, ink, solid = false) {
  const x0 = Math.max(left, 0);
  const x1 = Math.min(left + width, sheet.width);
  if (x0 >= x1) return;
  if (height < THIN && !solid) return blend(sheet, x0, x1, top, height, ink.base);
  const y1 = Math.min(Math.round(top + height), sheet.height);
  const base = packed(ink.base);
  for (let y = Math.max(Math.round(top), 0); y < y1; y++) {
    const row = y * sheet.width;
    sheet.whole.fill(base, row + x0, row + x1);
    if (ink.shade) lines(sheet, row, y, x0, x1, packed(ink.shade));
  }
}

// One pixel row of the hatch ///.
function lines({ whole, step, line }, row, y, x0, x1, shade) {
  for (let first = x0 - ((x0 + y) % step); first < x1; first += step) {
    const [from, to] = [Math.max(first, x0), Math.min(first + line, x1)];
    if (from < to) whole.fill(shade, row + from, row + to);
  }
}

// Neighbours are mostly alike: what one was mixed to is kept for those that looked the same.
function blend({ data, whole, width, height: rows, background }, x0, x1, top, height, colour) {
  for (let y = Math.max(Math.floor(top), 0); y < Math.min(top + height, rows); y++) {
    const share = Math.min(top + height, y + 1) - Math.max(top, y);
    let [before, mixed] = [-1, 0];
    for (let at = y * width + x0; at < y * width + x1; at++) {
      if (whole[at] !== before) {
        before = whole[at];
        const bare = data[4 * at + 3] === 0;
        for (let i = 0; i < 3; i++) data[4 * at + i] = (1 - share) * (bare ? background[i] : data[4 * at + i]) + share * colour[i];
        data[4 * at + 3] = 255;
        mixed = whole[at];
      } else whole[at] = mixed;
    }
  }
}

function packed([r, g, b]) {
  return (r | (g << 8) | (b << 16) | (255 << 24)) >>> 0;
}
