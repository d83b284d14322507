// Trace text made safe to show: every control and direction mark becomes a visible symbol.

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const NAMED = { "\n": "↵", "\t": "→" };

/** `text` with line ends and tabs as arrows and every other unseen mark as its code (`⟨202E⟩`). */
export function visible(text) {
  return text.replace(
    UNSEEN,
    (mark) => NAMED[mark] ?? `⟨${mark.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}⟩`,
  );
}

/** `visible` text with spaces that a reader could miss or miscount as dots. */
export function glyphs(text) {
  const shown = visible(text);
  return shown.replace(/ {2,}/g, (run) => "·".repeat(run.length));
}

/** Columns that `shown` takes in a monospaced font: wide characters take two. */
export function columns(shown) {
  let count = 0;
  for (const mark of shown) {
    const code = mark.codePointAt(0);
    count += MARKS.test(mark) ? 0 : WIDE.some(([low, high]) => code >= low && code <= high) ? 2 : 1;
  }
  return count;
}

const MARKS = /^\p{Mn}$/u;
const WIDE = [[0x1100, 0x115f], [0x2e80, 0xa4cf], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe30, 0xfe6f], [0xff00, 0xff60], [0xffe0, 0xffe6], [0x1f300, 0x1faff], [0x20000, 0x3fffd]];

/** 12345 as `12,345`. */
export function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 12345 as `12.3k`, for axes. */
export function short(number) {
  if (number >= 1e6) return `${trim(number / 1e6)}M`;
  if (number >= 1e3) return `${trim(number / 1e3)}k`;
  return String(Math.round(number));
}

function trim(number) {
  return number.toFixed(1).replace(/\.0$/, "");
}
