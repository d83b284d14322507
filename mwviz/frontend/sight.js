// What an address says beside the selection: read off the panes for a link, shown again from one.

import { addressOf, readZoom } from "./address.js";
import { METRICS } from "./metrics.js";

/** The parts of the address of what is shown now. */
export function partsOf(bench, { tabs }, panes) {
  const { model, under, selected, hover, pinned, address } = bench;
  const mark = selected ?? hover;
  const { timeline, drift, mask } = panes;
  const views = { timeline: timeline.view, drift: drift.view, ...(bench.order === "time" ? { mask: mask.view } : {}) };
  return addressOf({
    address, mark, pinned, views,
    view: under.view.name,
    metric: under.metric.kind,
    first: model.tree.targets.first,
    all: boundsOf(panes),
    marked: panes.text.marked,
    front: tabs.front(),
  });
}

/** Shows what a link asks for; what of it is not known in this rollout is given to `note`. */
export function showSight(bench, { tabs }, panes, acts, { m, k, sel, z, p, pin }) {
  const { model } = bench;
  const unknown = [];
  const wanted = (key, value, good, show) => {
    if (value === undefined) return;
    if (good) show();
    else unknown.push(key);
  };
  const key = Number(k);
  wanted("m", m, METRICS.some(([kind]) => kind === m), () => acts.metric(m));
  wanted("k", k, key < model.keys, () => chooseKey(bench, key));
  wanted("pin", pin, model.tree.calls.tip[Number(pin)] >= 0, () => (bench.pinned = { call: Number(pin) }));
  const views = z === undefined ? null : readZoom(z, boundsOf(panes));
  wanted("z", z, views, () => Object.entries(views).forEach(([name, view]) => panes[name].setView(view)));
  const ends = sel?.split("-").map(Number);
  wanted("sel", sel, ends?.every((rank) => rank < model.keys), () => panes.text.mark(...ends));
  if (p !== undefined) tabs.show(p);
  if (unknown.length) acts.note(`Not known in this rollout, left out: ${unknown.join(", ")}`);
  acts.changed();
}

function chooseKey(bench, key) {
  const { model, selected, completed } = bench;
  const mark = selected ?? completed({ call: model.keyCall(key), segment: model.segmentOf(model.bornAt(key)) });
  bench.selected = { ...mark, key };
}

function boundsOf({ timeline, mask, drift }) {
  return { timeline: timeline.bounds(), mask: mask.bounds(), drift: drift.bounds() };
}
