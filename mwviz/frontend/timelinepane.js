// The timeline pane: contexts by call, zoomed and searched by the pointer.

import { MARGIN } from "./axes.js";
import { follow, makeStage, wheelFactor } from "./canvas.js";
import { draw, projection } from "./draw.js";
import { placeOf } from "./model.js";
import { fit, hit, pan, zoom } from "./timeline.js";
import { counted } from "./text.js";

/** Builds the pane; `bench` is the shared state of the workbench. */
export function timelinePane(bench) {
  const pane = { ...makeStage("mw-stage"), view: null };
  const bounds = () => fit(bench.model.layout);
  const setView = (view) => {
    pane.view = view ?? bounds();
    bench.repaint();
  };
  follow(pane.stage, {
    ready: () => bench.model && pane.size,
    grab: () => pane.view,
    hover: (point) => bench.point(point && under(bench, pane, point), pane.stage, point),
    click: (point) => bench.choose(under(bench, pane, point)),
    reset: () => setView(null),
    drag: (from, point, kept) => {
      const place = projection(kept, pane.size);
      setView(pan(kept, bounds(), (from.left - point.left) / place.scaleX, (point.top - from.top) / place.scaleY));
    },
    wheel: (event, point) => wheel(bench, pane, event, point, setView, bounds()),
  });
  return {
    stage: pane.stage,
    get view() {
      return pane.view;
    },
    setView,
    bounds,
    draw() {
      pane.size = pane.fit();
      if (pane.size) draw(pane, scene(bench, pane));
    },
    spot: (mark) => centre(bench, pane, mark),
  };
}

function scene(bench, pane) {
  const { model, under, theme, hover, selected } = bench;
  return {
    tree: model.tree,
    layout: model.layout,
    junctions: model.tree.junctions,
    method: under.view.name,
    leaks: under.callShare,
    view: pane.view,
    size: pane.size,
    theme,
    hover,
    selected,
    found: bench.found,
    depthOf: (mark) => depthOf(model, mark),
  };
}

// Depth at which a mark's token stands in its call's context; null if no token is marked in it.
function depthOf(model, mark) {
  const { tree } = model;
  if (mark.target !== null && mark.target !== undefined) {
    return tree.calls.prompt[mark.call] + mark.target - tree.targets.first[mark.call];
  }
  const rank = placeOf(model, mark);
  if (rank === null) return null;
  const node = model.bornAt(rank);
  const segment = model.segmentOf(node);
  return segment === mark.segment ? tree.segments.depth[segment] + node - tree.segments.start[segment] : null;
}

// Zooms calls, with Shift depth, with Ctrl (and pinch) both; at the limit the page may scroll.
function wheel(bench, pane, event, point, setView, bounds) {
  const factor = wheelFactor(event);
  const place = projection(pane.view, pane.size);
  const inX = event.shiftKey ? 1 : factor;
  const inY = event.shiftKey || event.ctrlKey ? factor : 1;
  const next = zoom(pane.view, bounds, place.wx(point.left), place.wy(point.top), inX, inY);
  if (Object.keys(next).every((edge) => Math.abs(next[edge] - pane.view[edge]) < 1e-9)) return false;
  setView(next);
  bench.point(under(bench, pane, point), pane.stage, point);
  return true;
}

function under({ model }, pane, point) {
  const inside =
    point.left >= MARGIN.left &&
    point.left <= pane.size.width - MARGIN.right &&
    point.top >= MARGIN.top &&
    point.top <= pane.size.height - MARGIN.bottom;
  if (!inside) return null;
  const place = projection(pane.view, pane.size);
  const found = hit(model.layout, model.tree.segments, place.wx(point.left), place.wy(point.top));
  return found && { lane: found.span.lane, call: found.call, segment: found.span.segment, target: null, key: null };
}

function centre({ model }, pane, { lane, call, segment }) {
  const place = projection(pane.view, pane.size);
  const { depth, length } = model.tree.segments;
  return { left: place.px(call + 0.5), top: place.py(model.layout.lanes[lane].base + depth[segment] + length[segment] / 2) };
}

/** What the timeline shows, for a screen reader. */
export function timelineLabel({ model }) {
  const { layout } = model;
  const deepest = Math.max(0, ...layout.lanes.map((lane) => lane.height));
  return (
    `Timeline of ${counted(layout.calls, "call")} with ${counted(layout.cuts.length, "change")} of context; ` +
    `the longest context has ${counted(deepest, "token")}. ` +
    "Arrow keys move between calls and segments, n to the next change, Enter selects, plus and minus zoom."
  );
}
