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

/** Columns that `shown` takes in a monospaced font: wide characters and emoji take two, marks none. */
export function columns(shown) {
  let count = 0;
  for (const { segment } of GRAPHEMES.segment(shown)) count += MARKS.test(segment) ? 0 : isWide(segment) ? 2 : 1;
  return count;
}

const GRAPHEMES = new Intl.Segmenter("en", { granularity: "grapheme" });
const MARKS = /^\p{M}+$/u;
const EMOJI = /\p{Emoji_Presentation}|\p{Extended_Pictographic}\ufe0f/u;
const WIDE = [[0x1100, 0x115f], [0x2e80, 0xa4cf], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe30, 0xfe6f], [0xff00, 0xff60], [0xffe0, 0xffe6], [0x20000, 0x3fffd]];

function isWide(segment) {
  const code = segment.codePointAt(0);
  return EMOJI.test(segment) || WIDE.some(([low, high]) => code >= low && code <= high);
}

/** 12345 as `12,345`. */
export function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** How many there are of something: `1 token`, `12,345 tokens`. */
export function counted(number, one, many = `${one}s`) {
  return `${grouped(number)} ${Math.round(number) === 1 ? one : many}`;
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

/** `words` as far as they are no wider than `room`, with a sign that more follows; "" where none fits. */
export function fitted(words, room, measure) {
  if (measure(words) <= room) return words;
  const letters = [...words];
  const upTo = (count) => `${letters.slice(0, count).join("").trimEnd()}…`;
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(upTo(middle)) <= room) low = middle;
    else high = middle - 1;
  }
  return low ? upTo(low) : "";
}
