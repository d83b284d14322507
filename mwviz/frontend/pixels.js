// The mask as pixels: classes by share of area, exact where one pixel is one token. Pure.
// Cost: groups and spans in sight, plus pixels; never the square of the tokens.

import { AGREE, ERASED, FOREIGN, FUTURE, LOST, NAMES, NONE, SELF, SHIFTED, STALE, UNTRAINED, WRONG, groupOf } from "./classes.js";

/** Worst first: what a pixel shows if anything of it is in there. */
export const SEVERITY = [FUTURE, ERASED, FOREIGN, STALE, LOST, SELF, SHIFTED, AGREE, UNTRAINED, NONE];
export const OVERLAYS = ["difference", "view", "exact"];
const KINDS = NAMES.length;
const LEAST = 0.4; // share at which a wrong cell is drawn at least, so that no mean hides it
const EPSILON = 1e-6;
const SHORT = 16; // pixels
const WORSE = Uint8Array.from(NAMES.keys(), (kind) => (WRONG.includes(kind) ? 1 : 0));
const MARKED = Uint8Array.from(NAMES.keys(), (kind) => ([FUTURE, ERASED, STALE, FOREIGN, LOST, UNTRAINED].includes(kind) ? 1 : 0));

// What each class is drawn as in an overlay: what the view shows, what the agent saw, or both.
const SHOWN = { difference: [...NAMES.keys()], view: fold([FUTURE, STALE, FOREIGN, SHIFTED]), exact: fold([ERASED, LOST, SHIFTED, UNTRAINED]) };

function fold(seen) {
  return [...NAMES.keys()].map((kind) => (kind === AGREE || seen.includes(kind) ? AGREE : kind === SELF ? SELF : NONE));
}

/**
 * Shares of each class in every pixel of one pixel row, as Float64Array (classes x width).
 * `from`, `to`: the targets it covers; `view` {x0, x1}: the keys its width covers.
 */
export function rowShares(judged, from, to, view, width, overlay = "difference", row = newRow(width)) {
  clear(row);
  const shown = SHOWN[overlay];
  const scale = width / (view.x1 - view.x0);
  const add = (kind, low, high, weight) => {
    if (shown[kind] === NONE || high <= view.x0 || low >= view.x1) return;
    cover(row, shown[kind], Math.max((low - view.x0) * scale, 0), Math.min((high - view.x0) * scale, width), weight);
  };
  let group = Math.max(groupOf(judged, Math.floor(from)), 0);
  for (; group < judged.target.length && judged.target[group] < to; group++) {
    const start = judged.target[group];
    const low = Math.max(start, from);
    const high = Math.min(start + judged.count[group], to);
    if (low >= high) continue;
    const weight = (high - low) / (to - from);
    for (let span = judged.first[group]; span < judged.first[group + 1]; span++) {
      add(judged.kind[span], judged.from[span], judged.to[span], weight);
    }
    const own = judged.own[group];
    if (own >= view.x1 || own + judged.count[group] <= view.x0) continue;
    // Targets of one share whose own tokens stand in one pixel count as one with their mean.
    for (let target = Math.floor(low), next; target < high; target = next) {
      const self = own + target - start;
      const edge = view.x0 + (Math.floor((self - view.x0) * scale) + 1) / scale;
      const whole = target >= low ? Math.min(Math.floor(high), target + Math.ceil(edge - self)) : 0;
      next = Math.max(whole, target + 1);
      const share = (Math.min(next, high) - Math.max(target, low)) / (to - from);
      add(judged.trained[group] ? AGREE : UNTRAINED, own, self + (next - target - 1) / 2, share);
      if (judged.trained[group]) add(SELF, self, self + next - target, share / (next - target));
    }
  }
  return row;
}

export function newRow(width) {
  return {
    width,
    part: new Float64Array(KINDS * width),
    step: new Float64Array(KINDS * (width + 1)),
    fresh: new Uint32Array((width >> 5) + 2),
    used: new Uint8Array(KINDS),
  };
}

// Only what the last row has touched is set back.
function clear({ width, part, step, fresh, used }) {
  for (let kind = 0; kind < KINDS; kind++) {
    if (!used[kind]) continue;
    part.fill(0, kind * width, (kind + 1) * width);
    step.fill(0, kind * (width + 1), (kind + 1) * (width + 1));
  }
  used.fill(0);
  fresh.fill(0);
  mark(fresh, 0);
}

// A stretch of pixels from a to b (fractions allowed) of one class: ends in `part`, middle as steps.
// `fresh` marks pixels that may differ from the one before, a bit each.
function cover({ width, part, step, fresh, used }, kind, a, b, weight) {
  used[kind] = 1;
  const first = Math.floor(a);
  const last = Math.min(Math.floor(b), width);
  mark(fresh, first);
  mark(fresh, last);
  if (first === last) {
    if (first < width) part[kind * width + first] += weight * (b - a);
    return;
  }
  part[kind * width + first] += weight * (first + 1 - a);
  if (last < width) part[kind * width + last] += weight * (b - last);
  step[kind * (width + 1) + first + 1] += weight;
  step[kind * (width + 1) + last] -= weight;
}

// A pixel and the one behind it.
function mark(fresh, at) {
  fresh[at >> 5] |= 1 << (at & 31);
  fresh[(at + 1) >> 5] |= 1 << ((at + 1) & 31);
}

/**
 * Draws `view` {x0, x1, y0, y1} into RGBA `image` {data, width, height} (clamped, so that it rounds); gives the class that each
 * pixel shows. `colours`: per class {base, shade} as [r, g, b]; `mode`: "mix" or "worst".
 */
export function raster(judged, view, image, { overlay, mode, colours, step }) {
  const { width, height, data } = image;
  const worst = new Uint8Array(width * height).fill(NONE);
  const row = newRow(width);
  const running = new Float64Array(KINDS);
  const whole = new Uint32Array(data.buffer);
  const tall = (view.y1 - view.y0) / height;
  const marks = [];
  for (let y = 0; y < height; y++) {
    rowShares(judged, view.y0 + y * tall, view.y0 + (y + 1) * tall, view, width, overlay, row);
    running.fill(0);
    shares.fill(0);
    const kinds = SEVERITY.filter((kind) => row.used[kind]);
    for (let x = 0, next = 0, run = -1; x < width; x = next) {
      next = nextFresh(row.fresh, x + 1, width);
      const at = y * width + x;
      const kind = pixel(row, kinds, x, running, data, at * 4, colours, mode);
      spread(worst, at, at + next - x, kind);
      spread(whole, at + 1, at + next - x, whole[at]);
      if (MARKED[kind] && run === kind) marks[marks.length - 2] = next;
      else if (MARKED[kind]) marks.push(y, x, next, kind);
      run = kind;
    }
  }
  pattern(worst, image, { marks, colours, step });
  return worst;
}

// The first marked pixel at or behind `from`.
function nextFresh(fresh, from, width) {
  const words = (width >> 5) + 1;
  let word = from >> 5;
  let bits = fresh[word] & (-1 << (from & 31));
  while (!bits && word < words) bits = fresh[++word];
  return bits ? Math.min((word << 5) + 31 - Math.clz32(bits & -bits), width) : width;
}

// Built-in fills win on long stretches only.
function spread(array, from, to, value) {
  if (to - from > SHORT) array.fill(value, from, to);
  else for (let at = from; at < to; at++) array[at] = value;
}

const shares = new Float64Array(KINDS);

// Mixes one pixel of the classes `kinds`, worst first; gives the worst class in it, or the one that
// fills most of a harmless pixel.
function pixel({ width, part, step }, kinds, x, running, data, at, colours, mode) {
  let rest = 1;
  let top = NONE;
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i];
    running[kind] += step[kind * (width + 1) + x];
    const share = part[kind * width + x] + running[kind];
    shares[kind] = share < EPSILON ? 0 : share;
    rest -= shares[kind];
    if (top === NONE && shares[kind]) top = kind;
  }
  if (top === SELF && shares[SELF] < 0.5) top = largest();
  shares[NONE] = Math.max(rest, 0);
  const wrong = WORSE[top];
  if (wrong && mode === "worst") return paint(data, at, colours[top].base, top);
  const least = wrong ? Math.max(shares[top], LEAST) : shares[top];
  const others = shares[top] < 1 ? (1 - least) / (1 - shares[top]) : 0;
  let [r, g, b] = [0, 0, 0];
  for (let i = -1; i < kinds.length; i++) {
    const kind = i < 0 ? NONE : kinds[i];
    const share = kind === top ? least : shares[kind] * others;
    if (!share) continue;
    const colour = colours[kind].base;
    r += share * colour[0];
    g += share * colour[1];
    b += share * colour[2];
  }
  data[at] = r;
  data[at + 1] = g;
  data[at + 2] = b;
  data[at + 3] = 255;
  return least >= LEAST ? top : NONE;
}

function largest() {
  let best = SELF;
  for (const kind of [SHIFTED, AGREE, UNTRAINED]) if (shares[kind] > shares[best]) best = kind;
  return best;
}

function paint(data, at, colour, kind) {
  [data[at], data[at + 1], data[at + 2], data[at + 3]] = [...colour, 255];
  return kind;
}

// Marks beside the colours: /// future, outline erased, dots stale, ||| foreign, \\\ lost.
// `marks`: stretches of one class as y, first x, x behind the last, class.
function pattern(worst, { width, height, data }, { marks, colours, step }) {
  const whole = new Uint32Array(data.buffer);
  const ink = colours.map(({ shade: [r, g, b] }) => (r | (g << 8) | (b << 16) | (255 << 24)) >>> 0);
  for (let i = 0; i < marks.length; i += 4) {
    const [y, from, to, kind] = [marks[i], marks[i + 1], marks[i + 2], marks[i + 3]];
    const row = y * width;
    if (kind === ERASED) outline(worst, whole, { width, height }, { y, from, to, ink: ink[kind] });
    else if (kind === STALE) {
      if (y % step >= step / 4) continue;
      for (let x = from; x < to; x++) if (x % step < step / 4) whole[row + x] = ink[kind];
    } else {
      const shift = kind === FUTURE || kind === UNTRAINED ? y : kind === FOREIGN ? 0 : height * step - y;
      for (let x = from + ((step - ((from + shift) % step)) % step); x < to; x += step) whole[row + x] = ink[kind];
    }
  }
}

function outline(worst, whole, { width, height }, { y, from, to, ink }) {
  const border = y === 0 || y === height - 1;
  for (let x = from, at = y * width + from; x < to; x++, at++) {
    const inside =
      !border && x > 0 && x < width - 1 &&
      worst[at - 1] === ERASED && worst[at + 1] === ERASED && worst[at - width] === ERASED && worst[at + width] === ERASED;
    if (!inside) whole[at] = ink;
  }
}

/** The worst cell among some targets and keys (fractions allowed): {target, key, kind}. */
export function worstIn(judged, from, to, low, high) {
  let best = { target: Math.floor(from), key: Math.floor(low), kind: NONE };
  const offer = (target, key, kind) => {
    if (SEVERITY.indexOf(kind) < SEVERITY.indexOf(best.kind)) best = { target, key, kind };
  };
  let group = Math.max(groupOf(judged, Math.floor(from)), 0);
  for (; group < judged.target.length && judged.target[group] < to; group++) {
    const start = Math.max(judged.target[group], Math.floor(from));
    if (start >= judged.target[group] + judged.count[group]) continue;
    for (let span = judged.first[group]; span < judged.first[group + 1]; span++) {
      const key = Math.max(judged.from[span], Math.floor(low));
      if (key < judged.to[span] && key < high) offer(start, key, judged.kind[span]);
    }
    const own = judged.own[group];
    for (let target = start; target < Math.min(judged.target[group] + judged.count[group], to); target++) {
      const self = own + target - judged.target[group];
      if (self >= Math.floor(low) && self < high) offer(target, self, judged.trained[group] ? SELF : NONE);
      const key = Math.max(own, Math.floor(low));
      if (key < self && key < high) offer(target, key, judged.trained[group] ? AGREE : UNTRAINED);
    }
  }
  return best;
}
