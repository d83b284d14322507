// The text pane: rows of the context of one call, only those in sight as elements.

import { rankOf } from "./births.js";
import { NAMES, WRONG } from "./classes.js";
import { copied } from "./copy.js";
import { stretchesOf } from "./history.js";
import { placeOf } from "./model.js";
import { layRows, messageStarts, roleOf, rowOf, shownText, widths } from "./rows.js";
import { classColours, edgeOf, fade, inkOn, markedTint, metricTint } from "./theme.js";
import { element } from "./tooltip.js";

const ROW = 20; // CSS pixels
const GUTTER = 30;
const SPARE = 5; // rows kept beyond each edge
const SPECIAL = /^<\|[^|]*\|>$|^<\/?s>$|^<(?:bos|eos|pad|unk)>$/;

/** Builds the pane's stage; `bench` is the shared state of the workbench. */
export function textPane(bench) {
  const stage = element("div", "mw-text");
  stage.tabIndex = 0;
  stage.setAttribute("role", "group");
  const sheet = element("div", "mw-sheet");
  stage.append(sheet);
  const pane = { stage, laid: null, call: -1, width: 0, shown: [-1, -1], dirty: true, marked: null, sought: false };
  stage.addEventListener("scroll", () => render(bench, pane, sheet));
  const under = (event) => event.target.closest?.("[data-i]");
  stage.addEventListener("pointermove", (event) => {
    const spot = under(event);
    const mark = spot && markOf(bench, pane, Number(spot.dataset.i));
    bench.point(mark, stage, event);
  });
  stage.addEventListener("pointerleave", () => bench.point(null));
  stage.addEventListener("pointerdown", () => (pane.marked = null));
  stage.addEventListener("pointerup", () => noteMarked(bench, pane));
  stage.addEventListener("click", (event) => {
    const spot = under(event);
    if (spot && !String(stage.getRootNode().getSelection?.() ?? "")) bench.choose(markOf(bench, pane, Number(spot.dataset.i)));
  });
  return {
    stage,
    draw() {
      if (!stage.clientWidth) return;
      lay(bench, pane, sheet);
      render(bench, pane, sheet);
      if (pane.sought) seekMarked(bench, pane, sheet);
    },
    stale: () => (pane.dirty = true),
    forget: () => Object.assign(pane, { laid: null, call: -1, state: "", starts: null, widths: null, marked: null, sought: false }),
    show: (mark) => scrollTo(bench, pane, sheet, mark),
    get marker() {
      return pane.pieces?.get(placeOf(bench.model, bench.selected))?.at(-1);
    },
    step: (by) => step(bench, pane, sheet, by),
    get laid() {
      return pane.laid;
    },
    mark: (first, last) => Object.assign(pane, { marked: [first, last], sought: true, dirty: true }),
    get marked() {
      return pane.marked;
    },
    copied: () => copied(bench.model.tree, pane.laid, selectedRange(pane)),
  };
}

function lay(bench, pane, sheet) {
  const { model, shownCall, kept, pinned } = bench;
  const columns = Math.max(Math.floor((pane.stage.clientWidth - GUTTER - 8) / cell(bench, pane)), 8);
  const against = pinned && pinned.call !== shownCall ? pinned.call : null;
  const state = [shownCall, columns, kept, against].join();
  if (pane.laid && pane.state === state) return;
  const moved = pane.call !== shownCall;
  pane.starts ??= messageStarts(model.tree);
  Object.assign(pane, { call: shownCall, columns, state, against });
  pane.laid = layRows(model.tree, stretchesOf(model, shownCall, { mode: kept, against }), pane.starts, columns, widthsOf(bench, pane));
  pane.dirty = true;
  sheet.style.height = `${pane.laid.first.length * ROW + 6}px`;
  if (moved) pane.stage.scrollTop = bench.selected?.call === shownCall ? pane.stage.scrollTop : sheet.offsetHeight;
}

// Width of a column, from the font in use.
function cell(bench, pane) {
  if (pane.font === bench.theme.mono) return pane.cell;
  pane.brush ??= document.createElement("canvas").getContext("2d");
  pane.brush.font = `13px ${bench.theme.mono}`;
  pane.font = bench.theme.mono;
  pane.widths = null;
  return (pane.cell = pane.brush.measureText("0".repeat(100)).width / 100);
}

// Columns of each node as the fonts of this page draw it: wide characters, emoji, other scripts.
function widthsOf(bench, pane) {
  const one = cell(bench, pane);
  return (pane.widths ??= widths(bench.model.tree, (text) => pane.brush.measureText(text).width / one));
}

// The tokens that the reader has marked with the pointer: [first, last], or null.
function selectedRange({ stage }) {
  const chosen = stage.getRootNode().getSelection?.() ?? document.getSelection();
  if (!chosen || chosen.isCollapsed || !stage.contains(chosen.anchorNode) || !stage.contains(chosen.focusNode)) return null;
  const ends = [chosen.anchorNode, chosen.focusNode].map((node) => (node.parentElement.closest("[data-i]") ?? node.querySelector?.("[data-i]"))?.dataset.i);
  return ends.includes(undefined) ? null : ends.map(Number).sort((a, b) => a - b);
}

// The reader's marks by the places of their first and last token: rows come and go, these stay.
function noteMarked(bench, pane) {
  const ends = pane.laid && selectedRange(pane);
  pane.marked = ends && ends.map((i) => rankOf(bench.model.tree, pane.laid.node[i])).sort((a, b) => a - b);
}

function isMarked({ model }, pane, i) {
  const rank = rankOf(model.tree, pane.laid.node[i]);
  return pane.marked[0] <= rank && rank <= pane.marked[1];
}

function seekMarked(bench, pane, sheet) {
  pane.sought = false;
  const index = pane.laid.node.findIndex((_, i) => isMarked(bench, pane, i));
  if (index < 0) return;
  pane.stage.scrollTop = rowOf(pane.laid, index) * ROW - above(pane.stage);
  render(bench, pane, sheet);
}

// Marks again what new rows show of it, unless the reader has marked something else meanwhile.
function markAgain(bench, pane, sheet) {
  const chosen = pane.stage.getRootNode().getSelection?.() ?? document.getSelection();
  if (!pane.marked || String(chosen)) return;
  const pieces = [...sheet.querySelectorAll("[data-i]")].filter((piece) => isMarked(bench, pane, Number(piece.dataset.i)));
  if (pieces.length) chosen.setBaseAndExtent(pieces[0], 0, pieces.at(-1), 1);
}

function render(bench, pane, sheet) {
  if (!pane.laid) return;
  const rows = pane.laid.first.length;
  const spare = pane.begun ? SPARE : 0; // the first picture has what is in sight, the next frame the rest
  pane.begun = true;
  const low = Math.max(Math.floor(pane.stage.scrollTop / ROW) - spare, 0);
  const high = Math.min(Math.ceil((pane.stage.scrollTop + pane.stage.clientHeight) / ROW) + spare, rows);
  if (!pane.dirty && low === pane.shown[0] && high === pane.shown[1]) return outline(bench, pane);
  pane.shown = [low, high];
  pane.dirty = false;
  const dress = dresser(bench, pane);
  const made = [];
  pane.pieces = new Map();
  pane.outlined = [];
  const top = Math.ceil(pane.stage.scrollTop / ROW);
  for (let row = low; row < high; row++) made.push(makeRow(bench, pane, row, dress, row === top));
  sheet.replaceChildren(...made);
  markAgain(bench, pane, sheet);
  outline(bench, pane);
}

// Only the frames around what is pointed at and chosen: no element is made anew for a hover.
function outline(bench, pane) {
  for (const piece of pane.outlined) Object.assign(piece.style, { outline: "", zIndex: "" });
  pane.outlined = [];
  const { theme, hover, selected, model } = bench;
  for (const [mark, line] of [[hover, `1.5px solid ${fade(theme.ink, 0.9)}`], [selected, `2px solid ${theme.accent}`]]) {
    for (const piece of pane.pieces?.get(placeOf(model, mark)) ?? []) {
      Object.assign(piece.style, { outline: line, outlineOffset: "1px", position: "relative", zIndex: 1 });
      pane.outlined.push(piece);
    }
  }
}

// A row with the edge of its message's role, and its letter where the message begins or at the `top`.
function makeRow(bench, pane, row, dress, top) {
  const { laid, starts } = pane;
  const { tree } = bench.model;
  const line = element("div", "mw-row");
  line.style.top = `${row * ROW}px`;
  const gutter = element("span", "mw-role");
  const from = laid.first[row];
  const to = laid.first[row + 1] ?? laid.size;
  const role = roleOf(tree, laid.node[from]);
  if (starts[laid.node[from]] || top) gutter.textContent = role;
  const words = element("span", "mw-line");
  line.append(gutter, words);
  let sampled = 0;
  for (let i = from; i < to; ) {
    let end = i + 1;
    while (end < to && laid.joined[end]) end++;
    const piece = element("span", "mw-token");
    piece.dataset.i = i;
    piece.textContent = shownText(tree, laid, i, end, pane.columns);
    sampled += dress(piece, i);
    words.append(piece);
    i = end;
  }
  gutter.style.background = edgeOf(role, bench.theme, { sampled });
  if (laid.gone[from] >= 0) gutter.classList.add("gone");
  return line;
}

// A function that colours one token; gives whether it was sampled.
function dresser(bench, pane) {
  const { theme, under, selected, model, found } = bench;
  const colours = classColours(theme, NAMES);
  const chosen = selected?.target ?? null;
  const current = new Set(found?.matches[found.at]?.ranks);
  return (piece, i) => {
    const rank = rankOf(model.tree, pane.laid.node[i]);
    const target = under.targetOf(rank);
    const { style, classList } = piece;
    if (pane.laid.gone[i] >= 0) leave(piece, model, pane.laid.gone[i]);
    if (pane.laid.added[i]) classList.add("added");
    if (target >= 0) {
      const level = under.metric.level(target);
      if (level) Object.assign(style, { background: markedTint(under.metric, level, theme), color: inkOn(metricTint(under.metric, level, theme)) });
      else if (!under.trained(target)) classList.add("untrained");
    }
    if (SPECIAL.test(piece.textContent)) classList.add("special");
    if (found?.marked[rank]) classList.add(current.has(rank) ? "current" : "found");
    const kind = chosen === null ? -1 : under.classOf(chosen, rank);
    if (WRONG.includes(kind)) style.boxShadow = `inset 0 -3px ${colours[kind].css}`;
    pane.pieces.set(rank, [...(pane.pieces.get(rank) ?? []), piece]);
    return target >= 0 ? 1 : 0;
  };
}

function leave(piece, { tree }, call) {
  const kind = tree.junctions.find((junction) => junction.call === call)?.kind.replaceAll("_", " ");
  piece.classList.add("gone");
  piece.title = `Not in call ${call} any more${kind ? ` (${kind})` : ""}`;
}

// What a token of the pane stands for: a target if it was sampled, else a key.
function markOf(bench, pane, index) {
  const { model, under } = bench;
  const node = pane.laid.node[index];
  const rank = rankOf(model.tree, node);
  const target = under.targetOf(rank);
  if (target >= 0) return bench.completed({ target });
  return { call: pane.call, segment: model.segmentOf(node), lane: model.tree.calls.lineage[pane.call], target: null, key: rank };
}

// Brings the marked token into sight; if none is marked the first one of its segment, or what first
// differs from the pinned call.
function scrollTo(bench, pane, sheet, mark) {
  if (!pane.laid || !mark) return;
  const rank = placeOf(bench.model, mark);
  const { tree } = bench.model;
  const wanted = (node) => (rank === null ? bench.model.segmentOf(node) === mark.segment : rankOf(tree, node) === rank);
  const beside = rank === null && pane.against !== null;
  const index = beside ? pane.laid.gone.findIndex((gone, i) => gone >= 0 || pane.laid.added[i]) : pane.laid.node.findIndex(wanted);
  if (index < 0) return;
  const top = rowOf(pane.laid, index) * ROW;
  const { scrollTop, clientHeight } = pane.stage;
  if (top < scrollTop + ROW || top > scrollTop + clientHeight - 2 * ROW) {
    pane.stage.scrollTop = top - above(pane.stage);
  }
  render(bench, pane, sheet);
}

// How far below the upper edge a row is brought that is sought: a third, in whole rows.
function above({ clientHeight }) {
  return Math.round(clientHeight / 3 / ROW) * ROW;
}

function step(bench, pane, sheet, by) {
  if (!pane.laid?.size) return;
  const place = placeOf(bench.model, bench.hover ?? bench.selected);
  const { tree } = bench.model;
  let index = place === null ? -1 : pane.laid.node.findIndex((node) => rankOf(tree, node) === place);
  index = Math.min(Math.max(index < 0 ? pane.laid.first[pane.shown[0] + SPARE] ?? 0 : index + by, 0), pane.laid.size - 1);
  while (index > 0 && pane.laid.joined[index]) index += by < 0 ? -1 : 1;
  bench.point(markOf(bench, pane, Math.min(index, pane.laid.size - 1)), null);
  scrollTo(bench, pane, sheet, bench.hover);
}
