// A canvas that fills its box, and a pointer that hovers, drags, clicks and scrolls on it.

import { element } from "./tooltip.js";

const DRAG = 4; // pixels before a press becomes a drag
const RATE = 0.0016; // how much a pixel of the wheel zooms, as a share

/** A focusable stage with a canvas in it: {stage, canvas, context, fit()}. */
export function makeStage(name, label) {
  const stage = element("div", name);
  stage.tabIndex = 0;
  stage.setAttribute("role", "application");
  if (label) stage.setAttribute("aria-label", label);
  const canvas = element("canvas");
  canvas.setAttribute("aria-hidden", "true");
  stage.append(canvas);
  const context = canvas.getContext("2d");
  return { stage, canvas, context, size: null, fit: () => fit(stage, canvas) };
}

let boxes = null;

/**
 * Calls `draw(boxOf)` with where each stage is. All are read first: reading one after a canvas was sized
 * has the browser lay out the page anew.
 */
export function measured(stages, draw) {
  boxes = new Map(stages.map((stage) => [stage, stage.getBoundingClientRect()]));
  try {
    draw((stage) => boxes.get(stage));
  } finally {
    boxes = null;
  }
}

// The stage's size in CSS pixels with the canvas grown to it; null where it is not shown.
function fit(stage, canvas) {
  const { width, height } = boxes?.get(stage) ?? stage.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  if (width < 2 || height < 2) return null;
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  return { width, height, ratio };
}

/**
 * Pointer handling of one stage. `acts`: ready(), hover(point or null), drag(from, point, kept),
 * grab() -> what drag is given as `kept`, click(point), reset(), wheel(event, point) -> handled.
 */
export function follow(stage, acts) {
  let press = null;
  const fingers = new Map();
  const at = (event) => {
    const box = stage.getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top };
  };
  const on = (name, act, options) =>
    stage.addEventListener(name, (event) => acts.ready() && act(event), options);
  on("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    fingers.set(event.pointerId, at(event));
    press = fingers.size > 1 ? null : { from: at(event), kept: acts.grab(), moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    const point = at(event);
    if (fingers.size === 2 && fingers.has(event.pointerId)) return pinch(fingers, event.pointerId, point, acts);
    if (press && Math.hypot(point.left - press.from.left, point.top - press.from.top) > DRAG) press.moved = true;
    if (press?.moved) acts.drag(press.from, point, press.kept);
    acts.hover(press?.moved ? null : point);
  });
  const lift = (event) => fingers.delete(event.pointerId);
  stage.addEventListener("pointerup", lift);
  stage.addEventListener("pointercancel", lift);
  on("pointerup", (event) => {
    if (press && !press.moved) acts.click(at(event));
    press = null;
  });
  on("pointercancel", () => (press = null));
  on("pointerleave", () => acts.hover(null));
  on("dblclick", () => acts.reset());
  on("wheel", (event) => acts.wheel(event, at(event)) && event.preventDefault(), { passive: false });
}

// Two fingers zoom about the middle between them, as the wheel does.
function pinch(fingers, id, point, acts) {
  const spread = () => {
    const [a, b] = fingers.values();
    return { size: Math.max(Math.hypot(a.left - b.left, a.top - b.top), 1), left: (a.left + b.left) / 2, top: (a.top + b.top) / 2 };
  };
  const before = spread();
  fingers.set(id, point);
  const after = spread();
  const deltaY = Math.log(before.size / after.size) / RATE;
  acts.wheel({ deltaX: 0, deltaY, deltaMode: 0, ctrlKey: true, shiftKey: false }, after);
}

/** How much a wheel event zooms: above 1 is out. */
export function wheelFactor(event) {
  const delta = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 16 : 1);
  return Math.exp(Math.min(Math.max(delta, -300), 300) * RATE);
}

/** The part [low, high] scaled about `at` and kept inside [least, most], at least `size` long. */
export function zoomed(low, high, at, factor, { least, most, size }) {
  const long = Math.min(Math.max((high - low) * factor, Math.min(size, most - least)), most - least);
  const share = high > low ? (at - low) / (high - low) : 0;
  return slid(at - share * long, at + (1 - share) * long, least, most);
}

/** The part [low, high] moved until it lies inside [least, most]. */
export function slid(low, high, least, most) {
  const long = high - low;
  const from = Math.min(Math.max(low, least), Math.max(most - long, least));
  return [from, from + long];
}
