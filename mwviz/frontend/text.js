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
