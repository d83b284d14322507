// The workbench in the page: its elements, its pointer and keys. One instance a mount.

import { draw, MARGIN, projection } from "./draw.js";
import { act } from "./keys.js";
import { decode } from "./payload.js";
import { grouped } from "./text.js";
import { readTheme } from "./theme.js";
import { fit, hit, layOut, pan, zoom } from "./timeline.js";
import { element, tell } from "./tooltip.js";

const HEIGHT = 440; // CSS pixels; set here because file-backed styles arrive after the first call
const DRAG = 4; // pixels before a press becomes a drag
const SETTLE = 60; // milliseconds in which later selections replace earlier ones
const REMEMBERED = 8; // payloads whose view and selection outlive a change of page
const STYLE = `
  .mw { position: relative; display: flex; flex-direction: column; gap: 6px; font-size: 14px; }
  .mw-bar { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; min-height: 24px; }
  .mw-key { display: inline-flex; gap: 6px; align-items: center; font-size: 12px; }
  .mw-chip { width: 14px; height: 10px; border-radius: 2px; box-sizing: border-box; }
  .mw-hint { margin-left: auto; font-size: 12px; opacity: 0.72; }
  .mw-stage { position: relative; flex: 1; min-height: 0; border-radius: 6px; outline: none; cursor: crosshair;
    touch-action: none; }
  .mw-stage:focus-visible { box-shadow: 0 0 0 2px var(--st-primary-color, #ff4b4b); }
  .mw-stage canvas { position: absolute; inset: 0; width: 100%; height: 100%; border-radius: 6px; }
  .mw-tip { position: absolute; z-index: 2; max-width: 340px; padding: 7px 10px; border-radius: 6px;
    pointer-events: none; font-size: 12px; line-height: 1.45; visibility: hidden;
    box-shadow: 0 2px 10px rgba(0, 0, 0, 0.28); }
  .mw-tip b { display: block; font-weight: 600; }
  .mw-tip code { display: block; margin-top: 4px; opacity: 0.8; overflow: hidden; white-space: nowrap;
    text-overflow: ellipsis; }
  .mw-error { padding: 16px; }
  .mw-said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
`;

// Streamlit unmounts a component when the user changes the page; this brings back what was seen.
const memory = new Map();

/** A workbench inside `parent`; `update` again on new data or theme, `destroy` at the end. */
export function mount(parent) {
  const page = build(parent);
  const state = { bytes: null, tree: null, hover: null, selected: null, frame: 0, timer: 0, sent: "" };
  const repaint = () => {
    if (!state.frame) state.frame = requestAnimationFrame(() => paint(page, state));
  };
  const observer = new ResizeObserver(repaint);
  observer.observe(page.stage);
  listen(page, state, repaint);
  return {
    update(bytes, send) {
      state.send = send;
      if (!same(bytes, state.bytes)) load(page, state, bytes);
      state.theme = readTheme(page.root);
      dress(page, state.theme);
      repaint();
    },
    destroy() {
      remember(state);
      observer.disconnect();
      cancelAnimationFrame(state.frame);
      clearTimeout(state.timer);
      page.root.remove();
    },
  };
}

function build(parent) {
  const root = element("div", "mw");
  root.style.height = `${HEIGHT}px`;
  const style = element("style");
  style.textContent = STYLE;
  const bar = element("div", "mw-bar");
  const chips = [
    ["given", "given to the model"],
    ["sampled", "sampled by the model"],
    ["copy", "kept and encoded again"],
    ["fall", "evicted"],
  ].map(([name, text]) => key(bar, name, text));
  const hint = element("span", "mw-hint");
  hint.textContent = "scroll: zoom · drag: move · click: select · 0: whole rollout";
  bar.append(hint);
  const stage = element("div", "mw-stage");
  stage.tabIndex = 0;
  stage.setAttribute("role", "application");
  const canvas = element("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const tip = element("div", "mw-tip");
  const said = element("div", "mw-said");
  said.setAttribute("aria-live", "polite");
  stage.append(canvas, tip, said);
  root.append(style, bar, stage);
  parent.append(root);
  return { root, chips, stage, canvas, tip, said, context: canvas.getContext("2d") };
}

function key(bar, name, text) {
  const label = element("span", "mw-key");
  const chip = element("span", "mw-chip");
  chip.dataset.key = name;
  label.append(chip, text);
  bar.append(label);
  return chip;
}

function same(a, b) {
  return a === b || (a && b && a.length === b.length && a.every((byte, i) => byte === b[i]));
}

function load(page, state, bytes) {
  state.bytes = bytes;
  state.hover = state.selected = state.tree = null;
  page.root.querySelector(".mw-error")?.remove();
  try {
    state.tree = decode(bytes);
  } catch (error) {
    const message = element("div", "mw-error");
    message.setAttribute("role", "alert");
    message.textContent = `The timeline cannot be drawn: ${error.message}`;
    page.root.append(message);
    return;
  }
  state.layout = layOut(state.tree);
  state.bounds = fit(state.layout);
  const seen = memory.get(fingerprint(bytes));
  state.view = seen?.view ?? state.bounds;
  state.selected = seen?.selected ?? null;
  state.sent = seen?.sent ?? "";
  const { layout } = state;
  const deepest = Math.max(0, ...layout.lanes.map((lane) => lane.height));
  page.stage.setAttribute(
    "aria-label",
    `Timeline of ${grouped(layout.calls)} calls with ${grouped(layout.cuts.length)} changes of context; ` +
      `the longest context has ${grouped(deepest)} tokens. ` +
      "Arrow keys move between calls and segments, n to the next change, Enter selects, plus and minus zoom.",
  );
}

function remember(state) {
  if (!state.tree) return;
  const name = fingerprint(state.bytes);
  memory.delete(name);
  memory.set(name, { view: state.view, selected: state.selected, sent: state.sent });
  if (memory.size > REMEMBERED) memory.delete(memory.keys().next().value);
}

// FNV-1a over all bytes, and their number.
function fingerprint(bytes) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i], 0x01000193);
  return `${bytes.length}-${hash >>> 0}`;
}

function dress(page, theme) {
  page.root.style.color = theme.ink;
  page.root.style.fontFamily = theme.font;
  page.tip.style.background = theme.raised;
  page.tip.style.border = `1px solid ${theme.border}`;
  const lines = `repeating-linear-gradient(135deg, ${theme.ink}55 0 1px, transparent 1px 4px)`;
  const fills = {
    given: theme.given,
    sampled: theme.sampled,
    copy: `${lines}, ${theme.given}`,
    fall: `linear-gradient(90deg, ${theme.fall}99, transparent)`,
  };
  for (const chip of page.chips) chip.style.background = fills[chip.dataset.key];
}

function paint(page, state) {
  state.frame = 0;
  const { width, height } = page.stage.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  state.size = { width, height, ratio };
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (page.canvas.width !== wide) page.canvas.width = wide;
  if (page.canvas.height !== high) page.canvas.height = high;
  page.canvas.hidden = !state.tree;
  if (state.tree && wide && high) draw(page.context, state);
}

function listen(page, state, repaint) {
  const { stage } = page;
  let press = null;
  const at = (event) => {
    const box = stage.getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top };
  };
  const on = (name, act, options) =>
    stage.addEventListener(name, (event) => state.tree && state.size && act(event), options);
  on("pointerdown", (event) => {
    press = { ...at(event), view: state.view, moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    const point = at(event);
    if (press && Math.hypot(point.left - press.left, point.top - press.top) > DRAG) press.moved = true;
    if (press?.moved) {
      const place = projection(press.view, state.size);
      const dx = (press.left - point.left) / place.scaleX;
      state.view = pan(press.view, state.bounds, dx, (point.top - press.top) / place.scaleY);
    }
    state.hover = press?.moved ? null : under(state, point);
    tell(page, state, point);
    repaint();
  });
  on("pointerup", (event) => {
    if (press && !press.moved) choose(state, under(state, at(event)));
    press = null;
    repaint();
  });
  on("pointercancel", () => (press = null));
  on("pointerleave", () => {
    state.hover = null;
    tell(page, state, null);
    repaint();
  });
  on("dblclick", () => {
    state.view = state.bounds;
    repaint();
  });
  on("wheel", (event) => wheel(page, state, event, at(event), repaint), { passive: false });
  on("keydown", (event) => keyDown(page, state, event, repaint));
}

// Zooms calls, with Shift depth, with Ctrl (and pinch) both; at the limit the page may scroll.
function wheel(page, state, event, point, repaint) {
  const delta = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 16 : 1);
  const factor = Math.exp(Math.min(Math.max(delta, -300), 300) * 0.0016);
  const place = projection(state.view, state.size);
  const inX = event.shiftKey ? 1 : factor;
  const inY = event.shiftKey || event.ctrlKey ? factor : 1;
  const next = zoom(state.view, state.bounds, place.wx(point.left), place.wy(point.top), inX, inY);
  if (Object.keys(next).every((edge) => Math.abs(next[edge] - state.view[edge]) < 1e-9)) return;
  event.preventDefault();
  state.view = next;
  state.hover = under(state, point);
  tell(page, state, point);
  repaint();
}

function keyDown(page, state, event, repaint) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const change = act(event.key, state);
  if (!change) return;
  event.preventDefault();
  event.stopPropagation();
  state.view = change.view;
  state.hover = change.hover;
  if (change.chosen) choose(state, change.hover);
  tell(page, state, null);
  repaint();
}

function under(state, point) {
  const inside =
    point.left >= MARGIN.left &&
    point.left <= state.size.width - MARGIN.right &&
    point.top >= MARGIN.top &&
    point.top <= state.size.height - MARGIN.bottom;
  if (!inside) return null;
  const place = projection(state.view, state.size);
  const found = hit(state.layout, state.tree.segments, place.wx(point.left), place.wy(point.top));
  return found && { lane: found.span.lane, call: found.call, segment: found.span.segment, span: found.span };
}

// Commits a selection: drawn at once, sent once it has settled and only if it is a new one.
function choose(state, mark) {
  if (!mark) return;
  state.selected = mark;
  const value = { call: mark.call, segment: mark.segment };
  clearTimeout(state.timer);
  state.timer = setTimeout(() => {
    const text = JSON.stringify(value);
    if (text !== state.sent) state.send("selection", value);
    state.sent = text;
  }, SETTLE);
}
