// Rows as CSV, and the counts of a window of the mask. Pure.

import { AGREE, NAMES, NONE, SELF, UNTRAINED } from "./classes.js";

/**
 * Lines of `cells` as CSV (RFC 4180). Text that a spreadsheet would take for a formula gets an
 * apostrophe in front.
 */
export function csvOf(rows) {
  return rows.map((cells) => cells.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * How many cells of each class (by its index) the window {x0, x1, y0, y1} of whole tokens holds, by
 * call: [{call, counts}]. Exact integers by interval arithmetic.
 */
export function windowCounts(judged, { x0, x1, y0, y1 }) {
  const found = new Map();
  for (let group = 0; group < judged.target.length; group++) {
    const start = judged.target[group];
    const [low, high] = [Math.max(start, y0), Math.min(start + judged.count[group], y1)];
    if (low >= high) continue;
    const call = judged.call[group];
    if (!found.has(call)) found.set(call, new Float64Array(NAMES.length));
    const counts = found.get(call);
    const before = counts.reduce((sum, count) => sum + count, 0);
    for (let span = judged.first[group]; span < judged.first[group + 1]; span++) {
      const width = Math.min(judged.to[span], x1) - Math.max(judged.from[span], x0);
      if (width > 0) counts[judged.kind[span]] += width * (high - low);
    }
    addOwn(counts, judged, group, { low, high, x0, x1 });
    counts[NONE] += (high - low) * (x1 - x0) + before - counts.reduce((sum, count) => sum + count, 0);
  }
  return [...found].map(([call, counts]) => ({ call, counts }));
}

// A target's own earlier tokens, and itself.
function addOwn(counts, judged, group, { low, high, x0, x1 }) {
  const own = judged.own[group];
  const shift = own - judged.target[group];
  const earlier = judged.trained[group] ? AGREE : UNTRAINED;
  for (let target = low; target < high; target++) {
    const self = target + shift;
    counts[earlier] += Math.max(Math.min(self, x1) - Math.max(own, x0), 0);
    if (judged.trained[group] && self >= x0 && self < x1) counts[SELF]++;
  }
}

/** The rows of a window's counts, a line a call and class that occur; whole tokens, ends left out. */
export function countRows(judged, window, { view, order }) {
  const { x0, x1, y0, y1 } = window;
  const rows = [["view", "order", "rows_from", "rows_to", "columns_from", "columns_to", "call", "class", "cells"]];
  for (const { call, counts } of windowCounts(judged, window)) {
    counts.forEach((cells, kind) => cells && rows.push([view, order, y0, y1, x0, x1, call, NAMES[kind], cells]));
  }
  return rows;
}
