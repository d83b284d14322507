// The text of a call's context as rows of tokens. Pure: positions and widths only, nothing is drawn.

import { lastAtMost } from "./sorted.js";
import { columns, glyphs } from "./text.js";

const MOST_UNITS = 36; // pieces of a row, so that few elements are made even of short tokens
const MOST_SHOWN = 400; // characters of one token
const SPACE = 32; // bytes up to this one begin a word
const LINE_END = 10;

const CONTINUED = 128; // added to a role where its message began earlier

/** Code of the role where a message starts, 0 elsewhere: uint8 a node. */
export function messageStarts(tree) {
  const starts = new Uint8Array(tree.nodes);
  tree.roles.start.forEach((node, i) => {
    if (tree.roles.code[i] < CONTINUED) starts[node] = tree.roles.code[i];
  });
  return starts;
}

/** Letter of the role of a node's message, "" where none is known. */
export function roleOf({ roles }, node) {
  const run = lastAtMost(roles.start, node);
  return run < 0 ? "" : letterOf(roles, roles.code[run]);
}

/** Letters of the roles that a rollout has. */
export function rolesIn({ roles }) {
  return new Set(Array.from(new Set(roles.code), (code) => letterOf(roles, code)).filter(Boolean));
}

const letterOf = ({ letters }, code) => letters[(code % CONTINUED) - 1] ?? "";

/**
 * Rows of at most `width` columns: of each token in reading order its `node`, the call that no longer
 * had it (`gone`, -1: it is there) and whether it is `added`; the `first` token of each row.
 * Tokens that continue a character of the one before share its unit; `joined` marks them.
 * `widthOf` gives the columns of a node, as `widths` does.
 */
export function layRows(tree, stretches, starts, width, widthOf = widths(tree)) {
  const size = stretches.reduce((sum, { length }) => sum + length, 0);
  const [node, gone] = [new Uint32Array(size), new Int32Array(size)];
  const [added, joined] = [new Uint8Array(size), new Uint8Array(size)];
  const first = [0];
  const { offsets, raw } = tree.bytes;
  let [at, used, units, broken] = [0, 0, 0, false];
  let word = { at: 0, used: 0, units: 0 }; // where the row could break without cutting a word
  for (const stretch of stretches) {
    for (let i = 0; i < stretch.length; i++, at++) {
      const token = stretch.node + i;
      node[at] = token;
      gone[at] = stretch.gone;
      added[at] = stretch.added ? 1 : 0;
      if (i > 0 && raw[offsets[token]] >> 6 === 2) {
        joined[at] = 1;
        continue;
      }
      const wide = Math.min(widthOf(token), width);
      const forced = broken || starts[token] > 0;
      if (raw[offsets[token]] <= SPACE) word = { at, used, units };
      const over = used + wide > width && raw[offsets[token]] !== LINE_END;
      if (at > 0 && (forced || over || units === MOST_UNITS)) {
        const back = !forced && word.at > first[first.length - 1] && word.at < at ? word : { at, used, units };
        first.push(back.at);
        [used, units] = [used - back.used, units - back.units];
        if (used + wide > width) {
          first.push(at);
          [used, units] = [0, 0];
        }
        word = { at: back.at, used: 0, units: 0 };
      }
      used += wide;
      units++;
      broken = endsLine(raw, offsets[token], offsets[token + 1]);
    }
  }
  return { node, gone, added, joined, first: Uint32Array.from(size ? first : []), size };
}

function endsLine(raw, from, to) {
  for (let i = from; i < to; i++) if (raw[i] === LINE_END) return true;
  return false;
}

/** Columns of each node, looked up once a word: `measure` tells those of a text as it is shown. */
export function widths(tree, measure = columns) {
  const known = new Float32Array(tree.words.count).fill(-1);
  return (node) => {
    const word = tree.words.of[node];
    if (known[word] < 0) known[word] = widthOf(tree, node, measure);
    return known[word];
  };
}

// Plain ASCII is counted, everything else is measured as it is shown.
function widthOf(tree, node, measure) {
  const { offsets, raw } = tree.bytes;
  const [from, to] = [offsets[node], offsets[node + 1]];
  for (let i = from; i < to; i++) {
    if (raw[i] < 32 || raw[i] > 126) return measure(glyphs(tree.text(node, node + 1).slice(0, MOST_SHOWN)));
  }
  return to - from;
}

/** What is shown of the tokens [from, to) together, at most `width` columns of it. */
export function shownText(tree, laid, from, to, width) {
  const text = tree.text(laid.node[from], laid.node[to - 1] + 1);
  const shown = glyphs(text.slice(0, MOST_SHOWN));
  return shown.length > width ? `${shown.slice(0, Math.max(width - 1, 1))}…` : shown;
}

/** Row of a token. */
export function rowOf(laid, index) {
  return lastAtMost(laid.first, index);
}
