// Scrolls the page to a token that a button led to: its text, and below it what is said of it.

const SAID = Symbol.for("mwviz.said");
const TOP = 64; // CSS pixels that the navigation takes
const BOTTOM = 40; // those of the line of sizes
const SENTENCE = 96; // height of what is said first of a token, and of the text it stands in

/** Leaves the element that says what was selected; gives what takes it away again. */
export function leaveSaid(root) {
  window[SAID] = root;
  return () => {
    if (window[SAID] === root) window[SAID] = null; // a later one may have taken its place
  };
}

/** The element that says what was selected; null if there is none. */
export function said() {
  return window[SAID] ?? null;
}

/**
 * How far to scroll down (in CSS pixels, negative is up): all of the pane and the words below it where
 * the window is high enough, else as much of the pane as leaves its token in sight. 0 where token and
 * words are in sight already. `pane`, `token` and `said` are the tops of theirs in a window of `high`.
 */
export function leadBy({ pane, token, said, high }) {
  const most = token - TOP - 8;
  const needed = said === null ? -Infinity : said + SENTENCE - (high - BOTTOM);
  if (most >= 0 && needed <= 0 && token < high - BOTTOM) return 0;
  return Math.round(Math.min(Math.max(pane - TOP, needed), most));
}

/** Brings the `token` of the pane `box` into sight, at once for whoever wants less motion. */
export function lead(box, token) {
  const page = scrolled(box);
  if (!page) return;
  const top = (element) => element.getBoundingClientRect().top;
  const words = said()?.isConnected ? top(said()) : null;
  const by = leadBy({ pane: top(box), token: top(token ?? box), said: words, high: window.innerHeight });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (by) page.scrollBy({ top: by, behavior: still ? "instant" : "smooth" });
}

// The element around that scrolls, through shadow roots.
function scrolled(from) {
  for (let at = from; at; at = at.parentElement ?? at.getRootNode().host) {
    if (at.scrollHeight > at.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(at).overflowY)) return at;
  }
  return document.scrollingElement;
}
