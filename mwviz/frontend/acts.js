// What buttons and keys do, whichever of them is used.

import { sayAll } from "./captions.js";
import { countRows, csvOf } from "./csv.js";
import { save } from "./dialog.js";
import { explanationOf } from "./explain.js";
import { HELP, seek } from "./keys.js";
import { ORDERS } from "./maskaxes.js";
import { OVERLAYS } from "./pixels.js";
import { partsOf } from "./sight.js";
import { tableOf } from "./tables.js";
import { counted } from "./text.js";

const NOTE = 2600; // milliseconds for which a note stands

/** All acts on `bench`; `parts()` gives {page, panes, dialog, finder}, which are made later. */
export function actsOf(bench, parts) {
  const changed = () => {
    if (!bench.model) return;
    parts().panes.text.stale();
    sayAll(bench, parts().page);
    bench.repaint();
  };
  const set = (values) => {
    Object.assign(bench, values);
    changed();
  };
  const note = (words) => tell(parts().page, words);
  const acts = {
    changed,
    note,
    overlay: (name) => set({ overlay: name }),
    nextOverlay: () => set({ overlay: OVERLAYS[(OVERLAYS.indexOf(bench.overlay) + 1) % OVERLAYS.length] }),
    shape(name) {
      const { page, panes } = parts();
      const focused = page.root.getRootNode().activeElement;
      page.root.dataset.shape = name;
      const stages = { contexts: panes.timeline.stage, tree: panes.tree.stage, nodes: panes.nodes.stage };
      if (Object.values(stages).includes(focused)) stages[name].focus();
      set({ shape: name });
    },
    mode: () => set({ mode: bench.mode === "mix" ? "worst" : "mix" }),
    order: () => setOrder(bench, parts(), set, note),
    metric(name) {
      bench.metric = name;
      if (bench.model) set({ under: bench.model.under(bench.under.view.name, name) });
    },
    kept: (name) => set({ kept: name }),
    exact: () => parts().panes.mask.exact(),
    largest: () => bench.model && bench.go(wanted(bench, "d", null)),
    next: () => bench.model && bench.go(wanted(bench, "d", (bench.hover ?? bench.selected)?.target ?? null)),
    call: (by) => bench.model && bench.go(neighbour(bench, by)),
    help: () => toggle(parts(), () => parts().dialog.keys(HELP)),
    find: () => parts().finder.find(),
    goTo: () => parts().finder.goTo(),
    table: (name) => bench.model && toggle(parts(), () => showTable(bench, parts(), name)),
    explain: () => bench.model && toggle(parts(), () => parts().dialog.explain(explanationOf(bench))),
    full: (name) => full(parts().page, name, bench),
    pin: () => pin(bench, set, note),
    view: () => bench.model && nextView(bench, acts),
    link: () => bench.model && copyLink(bench, parts(), note),
    copy: () => bench.model && copyText(parts(), note),
    png: () => bench.model && savePicture(bench, parts().panes.mask),
    counts: () => bench.model && saveCounts(bench, parts().panes.mask),
    show(match) {
      parts().page.tabs.show("text");
      bench.go(markOf(bench, match));
    },
    went: ({ mark, range }) => (range ? showRange(bench, parts(), set, range) : bench.go(bench.completed(mark))),
    repaint: () => bench.repaint?.(),
  };
  return acts;
}

/** The mark that d, D, l or L lead to from target `at`, or null. */
export function wanted({ under, completed }, key, at) {
  const target = seek(key, { metric: under.number("drift") ?? under.metric, leaks: under.leaks }, at);
  return target === null ? null : completed({ target });
}

function toggle({ dialog }, open) {
  if (dialog.open) dialog.close();
  else open();
}

function tell(page, words) {
  clearTimeout(page.noted);
  page.note.textContent = words;
  page.note.hidden = false;
  page.noted = setTimeout(() => (page.note.hidden = true), NOTE);
}

function setOrder(bench, { panes }, set, note) {
  set({ order: ORDERS[(ORDERS.indexOf(bench.order) + 1) % ORDERS.length] });
  if (!bench.model) return;
  const { refused } = panes.mask.axes;
  if (refused) {
    set({ order: "time" });
    note(`Packed order: ${refused}`);
  }
  panes.mask.setView(null);
  panes.mask.show(bench.hover ?? bench.selected);
}

// The call before or after the one whose text is shown, in its lineage.
function neighbour({ model, shownCall, completed: whole }, by) {
  const { calls } = model.layout.lanes[model.tree.calls.lineage[shownCall]];
  const call = calls[calls.indexOf(shownCall) + by];
  return call === undefined ? null : whole({ call });
}

function showTable(bench, { panes, dialog }, name) {
  bench.listed = name;
  bench.repaint();
  dialog.table(() => tableOf(name, bench, panes.text.laid), (mark) => {
    dialog.close();
    bench.choose(bench.completed(mark));
  });
}

function full(page, name, bench) {
  const { root } = page;
  const on = root.dataset.full !== name;
  if (on) root.dataset.full = name;
  else delete root.dataset.full;
  bench.repaint();
}

function pin(bench, set, note) {
  if (!bench.model) return;
  const call = (bench.hover ?? bench.selected)?.call ?? bench.shownCall;
  const off = bench.pinned?.call === call;
  set({ pinned: off ? null : { call } });
  note(off ? "Nothing is pinned" : `Call ${call} is pinned: the text of any other call now shows what differs from it`);
}

// The server's picker follows; the drawing does not wait for it.
function nextView(bench, acts) {
  const names = bench.model.tree.views.map(({ name }) => name);
  const name = names[(names.indexOf(bench.under.view.name) + 1) % names.length];
  bench.under = bench.model.under(name, bench.metric);
  acts.changed();
  clearTimeout(bench.viewTimer);
  bench.viewTimer = setTimeout(() => bench.sendOnce("view", name), 400);
}

// Copies the address of what is shown, and has Python write it into the address bar.
function copyLink(bench, { page, panes }, note) {
  const parts = partsOf(bench, page, panes);
  const address = new URL(location.href);
  address.search = new URLSearchParams(parts);
  copy(String(address), "Link copied: it holds ids only, no text", note);
  if (bench.address) bench.sendOnce("link", parts);
}

function copyText({ panes }, note) {
  const lines = panes.text.copied();
  const tokens = lines.split("\n").length - 1;
  copy(lines, `Copied ${counted(tokens, "token")} with ${tokens === 1 ? "its id" : "their ids"}`, note);
}

function copy(text, done, note) {
  const failed = () => note("The browser does not let this page use the clipboard");
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => note(done), failed);
  else failed();
}

function fileName({ under, order }, { x0, x1, y0, y1 }, end) {
  return `mask-${under.view.name}-${order}-q${y0}-${y1}-k${x0}-${x1}.${end}`;
}

function savePicture(bench, mask) {
  const [picture, frame] = mask.picture();
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [frame.width, frame.height];
  const brush = sheet.getContext("2d");
  const ratio = frame.width / frame.getBoundingClientRect().width;
  brush.fillStyle = bench.theme.background;
  brush.fillRect(0, 0, sheet.width, sheet.height);
  const { left, top } = mask.inside();
  brush.drawImage(picture, Math.round(left * ratio), Math.round(top * ratio));
  brush.drawImage(frame, 0, 0);
  sheet.toBlob((blob) => save(blob, fileName(bench, mask.window(), "png"), "image/png"));
}

function saveCounts(bench, mask) {
  const window = mask.window();
  const rows = countRows(mask.axes.judged, window, { view: bench.under.view.name, order: mask.axes.order });
  save(csvOf(rows), fileName(bench, window, "csv"), "text/csv");
}

// Where a match is shown: its first token where it was sampled, else in the call that first had it.
function markOf({ model, under, completed }, { ranks: [rank] }) {
  const target = under.targetOf(rank);
  if (target >= 0) return completed({ target });
  return completed({ call: model.keyCall(rank), segment: model.segmentOf(model.bornAt(rank)), key: rank });
}

function showRange(bench, { page, panes }, set, range) {
  if (bench.order !== "time") set({ order: "time" });
  page.tabs.show("mask");
  const now = panes.mask.view;
  panes.mask.setView({ x0: range.x0 ?? now.x0, x1: range.x1 ?? now.x1, y0: range.y0 ?? now.y0, y1: range.y1 ?? now.y1 });
}
