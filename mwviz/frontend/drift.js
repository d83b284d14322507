// What one byte of drift means, and the numbers that panes draw of it. Codes: mwviz/quantise.py.

export const UNCOVERED = 0;
export const INSIDE = 128;
const STEPS = 127;

/** Nats of a code: 0 inside the floor, null where the view does not train the token. */
export function nats(code, { floor, scale }) {
  if (code === UNCOVERED) return null;
  const level = code - INSIDE;
  if (level === 0) return 0;
  return Math.sign(level) * floor * (scale / floor) ** ((Math.abs(level) - 1) / (STEPS - 1));
}

/** Where a number lies between `low` and `scale`, with its sign: 0.06 to 1, and 0 for 0. */
export function logLevel(number, low, scale) {
  if (!number) return 0;
  const reach = Math.log(scale / low);
  const share = reach > 0 ? Math.log(Math.max(Math.abs(number) / low, 1)) / reach : 1;
  return Math.sign(number) * (0.06 + 0.94 * Math.min(share, 1));
}

/** Round numbers of a log scale between `low` and `scale`, largest first. */
export function logTicks(low, scale) {
  const found = [];
  for (let power = Math.floor(Math.log10(scale)); 10 ** power >= low * 0.999 && found.length < 4; power--) found.push(10 ** power);
  return found;
}

/**
 * Envelope of `metric.level` over `columns` equal parts of the targets [from, to): per column least
 * and most, and the share of targets that are not trained.
 */
export function envelope(metric, from, to, columns) {
  const least = new Float32Array(columns);
  const most = new Float32Array(columns);
  const bare = new Float32Array(columns);
  const wide = (to - from) / columns;
  for (let column = 0; column < columns; column++) {
    const start = Math.max(Math.floor(from + column * wide), 0);
    const end = Math.min(Math.max(Math.ceil(from + (column + 1) * wide), start + 1), metric.count);
    let missing = 0;
    for (let target = start; target < end; target++) {
      if (metric.value(target) === null) missing++;
      const level = metric.level(target);
      if (level < least[column]) least[column] = level;
      if (level > most[column]) most[column] = level;
    }
    bare[column] = end > start ? missing / (end - start) : 0;
  }
  return { least, most, bare };
}
