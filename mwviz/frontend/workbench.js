// The workbench in the page: four linked panes over one payload, one selection. One a mount.

import { actsOf } from "./acts.js";
import { measured } from "./canvas.js";
import { sayAll } from "./captions.js";
import { keyDown } from "./controls.js";
import { makeDialog } from "./dialog.js";
import { driftPane } from "./driftpane.js";
import { askForNumbers, listenForNumbers, scoredOf } from "./fetched.js";
import { makeFinder } from "./finder.js";
import { buildFrame, dressFrame } from "./frame.js";
import { lead } from "./leading.js";
import { listenForCommands, sayUntilTold } from "./mailbox.js";
import { maskPane } from "./maskpane.js";
import { recall, remember, same } from "./memory.js";
import { FETCHED } from "./metrics.js";
import { completed, modelOf } from "./model.js";
import { nodesPane } from "./nodespane.js";
import { decode } from "./payload.js";
import { listenForAsked } from "./shownnumber.js";
import { showSight } from "./sight.js";
import { NARROW } from "./style.js";
import { textPane } from "./textpane.js";
import { readTheme } from "./theme.js";
import { highFor } from "./timeline.js";
import { timelinePane } from "./timelinepane.js";
import { describe } from "./tips.js";
import { corner, element, showTip } from "./tooltip.js";
import { treePane } from "./treepane.js";

const SETTLE = 60; // milliseconds in which later selections replace earlier ones

/** A workbench inside `parent`; `update` again on new data or theme, `destroy` at the end. */
export function mount(parent) {
  const bench = {
    model: null, under: null, theme: null, hover: null, selected: null, pending: null, onceDrawn: null, leads: false, awaited: true, shownCall: 0, found: null, pinned: null,
    overlay: "difference", mode: "mix", order: "time", shape: "contexts", metric: "drift", kept: "last", bytes: null, numbers: [], serial: 0, sent: "", frame: 0, timer: 0,
  };
  const parts = { panes: { timeline: timelinePane(bench), tree: treePane(bench), nodes: nodesPane(bench), mask: maskPane(bench), text: textPane(bench), drift: driftPane(bench) } };
  const { panes } = parts;
  const acts = actsOf(bench, () => parts);
  const page = buildFrame(parent, Object.fromEntries(Object.entries(panes).map(([name, pane]) => [name, pane.stage])), acts);
  Object.assign(parts, { page, dialog: makeDialog(page.root), finder: makeFinder(bench, page, acts) });
  join(bench, parts);
  bench.show = (sight) => showSight(bench, page, panes, acts, sight);
  const observer = new ResizeObserver(() => {
    fold(page);
    bench.repaint();
  });
  for (const pane of [page.root, ...Object.values(panes).map(({ stage }) => stage)]) observer.observe(pane);
  const press = (event) => keyDown(bench, parts, acts, event);
  const stray = (event) => isStray(event) && press(event);
  page.root.addEventListener("keydown", press);
  document.addEventListener("keydown", stray);
  const deaf = listenForCommands((command) => obey(bench, page, panes, command, acts));
  const deafToAsked = listenForAsked(acts.metric);
  const deafToNumbers = listenForNumbers((numbers, kind) => takeNumbers(bench, parts, numbers, kind));
  return {
    update(bytes, send, sendOnce) {
      Object.assign(bench, { send, sendOnce });
      bench.theme = readTheme(page.root);
      if (!same(bytes, bench.bytes)) load(bench, page, panes, bytes);
      dressFrame(page, bench.theme);
      panes.text.stale();
      sayAll(bench, page);
      if (page.root.dataset.drawn === undefined) bench.begin();
      else bench.repaint();
    },
    destroy() {
      if (bench.model) remember(bench.bytes, state(bench, panes));
      deaf();
      deafToAsked();
      deafToNumbers();
      observer.disconnect();
      document.removeEventListener("keydown", stray);
      cancelAnimationFrame(bench.frame);
      clearTimeout(bench.timer);
      page.root.remove();
    },
  };
}

// Tabs instead of panes side by side where there is little room.
function fold({ root }) {
  root.classList.toggle("narrow", root.clientWidth < NARROW);
}

// Whether a key pressed outside the workbench is meant for it: on the page itself, or on a button that
// was pressed last and has no use for letters.
function isStray({ target, key }) {
  const letter = key.length === 1 && key !== " ";
  return target === document.body || Boolean((letter || key === "Escape") && target.closest?.("button, a"));
}

// What panes may do to each other: repaint all, point at something, choose it.
function join(bench, { page, panes, dialog }) {
  const inTurn = [panes.text, ...Object.values(panes).filter((pane) => pane !== panes.text)]; // its rows need the layout
  const paint = () => {
    bench.frame = 0;
    if (!bench.model) return;
    const first = page.root.dataset.drawn === undefined;
    let late = [];
    measured(inTurn.map(({ stage }) => stage), (boxOf) => {
      if (first) late = inTurn.filter(({ stage }) => boxOf(stage).top >= window.innerHeight);
      for (const pane of inTurn) if (!late.includes(pane)) pane.draw();
    });
    if (!late.length) {
      if (bench.pending) panes.text.show(bench.pending);
      bench.pending = null;
      if (bench.leads && !page.root.dataset.full) lead(page.panes.text.box, panes.text.marker);
      bench.leads = false;
      bench.onceDrawn?.();
      bench.onceDrawn = null;
    }
    page.root.dataset.drawn = "";
    sayDrawn(bench, page);
    if (first) bench.repaint(); // what lies beyond the window comes a frame later
    askForNumbers(bench.model.tree.id, bench.under.lacking(shownKinds(bench, dialog)));
  };
  bench.repaint = () => {
    if (!bench.frame) bench.frame = requestAnimationFrame(paint);
  };
  // Draws at once instead of before the next frame, unless an address may still choose another view.
  bench.begin = () => {
    if (location.search) return bench.repaint();
    fold(page);
    paint();
  };
  bench.completed = (told) => completed(bench.model, told);
  bench.point = (mark, stage, spot) => {
    if (!mark && !bench.hover) return;
    bench.hover = mark && { target: null, key: null, ...mark };
    bench.onceDrawn = null;
    showTip(page, bench.hover && stage && describe(bench, bench.hover), stage && spot && corner(page, stage, spot));
    bench.repaint();
  };
  bench.go = (mark) => go(bench, mark);
  bench.choose = (mark) => choose(bench, mark);
  bench.follow = (mark) => {
    bench.shownCall = mark.call;
    bench.pending = mark;
    panes.mask.show(mark);
    panes.drift.show(mark);
    panes.text.stale();
    sayAll(bench, page);
    bench.repaint();
  };
}

// The numbers that are looked at: the one that colours, what is said of a token, all in their table.
function shownKinds({ metric, under, listed }, dialog) {
  return dialog.open && listed === "drift" ? under.known : [metric, "drift", "true"];
}

function load(bench, page, panes, bytes) {
  const before = bench.model;
  const kept = before && state(bench, panes);
  Object.assign(bench, { bytes, model: null, under: null, hover: null, onceDrawn: null, selected: null, found: null, pinned: null });
  page.root.querySelector(".mw-error")?.remove();
  panes.text.forget();
  panes.tree.forget();
  panes.mask.stale();
  try {
    bench.model = modelOf(decode(bytes));
  } catch (error) {
    const message = element("div", "mw-error", `The workbench cannot be drawn: ${error.message}`);
    message.setAttribute("role", "alert");
    page.root.append(message);
    page.root.dataset.drawn = "";
    sayDrawn(bench, page);
    return;
  }
  const { model } = bench;
  model.supply(bench.numbers, scoredOf(model.tree.id));
  const lanes = model.layout.lanes.length;
  page.root.style.setProperty("--mw-contexts", lanes > 1 ? `${highFor(lanes)}px` : "");
  const seen = recall(bytes) ?? (kept && carried(before, model, kept));
  bench.metric = seen?.metric ?? bench.metric;
  bench.under = model.under(bench.wanted ?? model.tree.views[0]?.name ?? "packed_mask", bench.metric);
  bench.selected = seen?.selected ?? null;
  if (!before) bench.pending = bench.selected; // the text pane is new: it shows it again
  bench.pinned = seen?.pinned ?? null;
  if (!seen) bench.sent = "";
  bench.openedAt = seen ? null : firstShown(bench);
  bench.shownCall = seen?.shownCall ?? bench.openedAt;
  panes.timeline.setView(seen?.timeline ?? null);
  panes.mask.setView(seen?.mask ?? null);
  panes.drift.setView(seen?.drift ?? null);
  showAsked(bench, page);
}

// What was seen of a rollout, where more is known of it now or calls have come to it: calls and
// sampled tokens keep their numbers then, segments do not. Null for another rollout.
function carried(before, model, kept) {
  const [old, now] = [before.tree.targets.first, model.tree.targets.first];
  if (old.length > now.length || old.some((first, call) => now[call] !== first)) return null;
  if (before.tree.nodes === model.tree.nodes) return kept;
  const { selected, shownCall, pinned } = kept;
  const { call, target, key } = selected ?? {};
  return { selected: selected && completed(model, { call, target, key }), shownCall, pinned };
}

// The call whose text is shown first: where the worst token was sampled, else the last one.
function firstShown({ model, under }) {
  const [worst] = under.metric.worst;
  return worst === undefined ? Math.max(model.tree.calls.tip.length - 1, 0) : model.callOf(worst);
}

function state(bench, panes) {
  const { selected, pinned, shownCall, order, metric } = bench;
  const mask = order === "time" ? panes.mask.view : null;
  return { selected, pinned, shownCall, metric, timeline: panes.timeline.view, mask, drift: panes.drift.view };
}

// Moves to a mark in every pane without telling the server.
function go(bench, mark) {
  if (!mark) return;
  bench.hover = { target: null, key: null, ...mark };
  bench.follow(bench.hover);
}

// Commits a selection: drawn at once, sent once it has settled and only if it is a new one. The serial of
// the last order goes with it: what was chosen before that order is new again.
function choose(bench, mark) {
  if (!mark) return;
  bench.selected = { target: null, key: null, ...mark };
  const { call, segment, target } = bench.selected;
  const value = [bench.serial, call, segment, ...(target === null ? [] : [target])];
  bench.follow(bench.selected);
  clearTimeout(bench.timer);
  bench.timer = setTimeout(() => {
    const text = JSON.stringify(value);
    if (text !== bench.sent) bench.send("selection", value);
    bench.sent = text;
  }, SETTLE);
}

// Shows what Python asked for, as soon as there is a rollout to show it in.
function showAsked(bench, page) {
  const { asked, sight } = bench;
  Object.assign(bench, { asked: null, sight: null });
  const mark = asked && completed(bench.model, asked.selection);
  if (mark) {
    bench.selected = mark;
    bench.hover = null;
  }
  if (sight) bench.show(sight);
  if (!mark) return;
  if (asked.leads) page.tabs.show("text");
  bench.leads = asked.leads;
  bench.follow(bench.selected);
}

// Tells Python, if it waits for that or has told nothing yet, that all is drawn that can be: heavier
// parts of the page may come.
function sayDrawn(bench, { root }) {
  if (!bench.awaited || root.dataset.drawn === undefined) return;
  bench.awaited = false;
  sayUntilTold(() => {
    if (root.isConnected) bench.sendOnce("drawn", true);
    return root.isConnected;
  });
}

// Numbers that were asked for: known from now on, and one of them shown where that was asked too. A
// rollout that opened without the number that says where its worst token is, opens there now.
function takeNumbers(bench, { page, panes, dialog }, numbers, kind) {
  bench.numbers = numbers;
  if (kind) bench.metric = kind;
  const { model } = bench;
  if (!model) return;
  const before = bench.under.metric;
  model.supply(numbers, scoredOf(model.tree.id));
  bench.under = model.under(bench.under.view.name, bench.metric);
  if (before.awaited && bench.shownCall === bench.openedAt && !bench.selected && !bench.hover) bench.shownCall = firstShown(bench);
  panes.text.stale();
  if (before.awaited || FETCHED.has(bench.under.metric.kind)) panes.mask.stale();
  sayAll(bench, page);
  dialog.refresh();
  bench.repaint();
}

function obey(bench, page, panes, { view, selection, sight, leads, serial, address, awaited, copying }, acts) {
  bench.awaited = awaited;
  bench.serial = serial ?? bench.serial;
  sayDrawn(bench, page);
  if (view !== undefined) bench.wanted = view;
  if (address !== undefined) bench.address = address;
  if (selection) bench.asked = { selection, leads: leads === true };
  if (sight) bench.sight = sight;
  if (!bench.model) return;
  if (view !== undefined && view !== bench.under.view.name) {
    bench.under = bench.model.under(view, bench.metric);
    panes.text.stale();
  }
  showAsked(bench, page);
  if (copying) acts.link();
  sayAll(bench, page);
  bench.repaint();
}
