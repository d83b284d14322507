// The parts of an address that leads to what is shown: ids and numbers only. Pure; `app/links.py`
// reads and checks them, and knows what each key means.

const LONGEST = 64; // characters of a value
const PANES = { t: "timeline", m: "mask", d: "drift" };
const EDGES = ["x0", "x1", "y0", "y1"];

/**
 * Parts of the address, key by key. `address`: what the page alone knows {t, B, setup?, ...}; `all`,
 * `views`: bounds and what is in sight, by pane; `marked`: places of the first and last marked token;
 * `front`: the pane in front where only one is in sight.
 */
export function addressOf({ address, view, metric, mark, first, pinned, all, views, marked, front }) {
  const { setup, ...own } = address ?? {};
  const target = mark?.target ?? null;
  const parts = {
    ...own,
    A: view && (setup ? `${view}-${setup}` : view),
    call: mark?.call,
    tok: target === null ? null : target - first[mark.call],
    k: mark?.key,
    sel: marked && `${marked[0]}-${marked[1]}`,
    m: metric === "drift" ? null : metric,
    z: zoomText(all, views),
    p: front,
    pin: pinned?.call,
  };
  const known = ([, value]) => value !== null && value !== undefined && value !== "";
  return Object.fromEntries(Object.entries(parts).filter(known).map(([key, value]) => [key, String(value)]));
}

/** What is in sight of each pane that does not show everything, in whole numbers; "" if all do. */
export function zoomText(all, views) {
  let text = "";
  for (const [letter, name] of Object.entries(PANES)) {
    const [whole, view] = [all[name], views[name]];
    if (!view || !whole) continue;
    const edges = EDGES.filter((edge) => edge in whole);
    if (edges.every((edge) => Math.abs(view[edge] - whole[edge]) < 1e-6)) continue;
    const numbers = edges.map((edge) => Math.max(edge.endsWith("0") ? Math.floor(view[edge]) : Math.ceil(view[edge]), 0));
    const told = letter + numbers.map((number) => number.toString(36)).join("-");
    const longer = text ? `${text}_${told}` : told;
    if (longer.length <= LONGEST) text = longer;
  }
  return text;
}

/** The views that `zoomText` told, kept within `all`, by pane; null if the text says something else. */
export function readZoom(text, all) {
  const views = {};
  for (const part of text.split("_")) {
    const name = PANES[part[0]];
    const numbers = part.slice(1).split("-").map((digits) => parseInt(digits, 36));
    const edges = EDGES.filter((edge) => name && edge in all[name]);
    if (!name || numbers.length !== edges.length || numbers.some(Number.isNaN)) return null;
    const view = {};
    for (let i = 0; i < edges.length; i += 2) {
      const most = all[name][edges[i + 1]];
      const [low, high] = [Math.min(numbers[i], most), Math.min(numbers[i + 1], most)];
      if (low >= high) return null;
      Object.assign(view, { [edges[i]]: low, [edges[i + 1]]: high });
    }
    views[name] = view;
  }
  return views;
}
