// Axes of the timeline, and the room that they take.

import { short, visible } from "./text.js";
import { fade } from "./theme.js";
import { ticks } from "./timeline.js";

const APART = 13; // CSS pixels between two words above one another

export const MARGIN = { left: 52, right: 14, top: 22, bottom: 30 };

/** Depths at the left, one scale a lane; calls below. */
export function drawAxes(context, scene, place) {
  const { theme, view, layout } = scene;
  const faint = fade(theme.ink, 0.1);
  const label = fade(theme.ink, 0.72);
  const floor = MARGIN.top + place.height;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const [free, freeTick] = [apart(APART), apart(APART)];
  for (const lane of layout.lanes) {
    const low = Math.max(view.y0 - lane.base, 0);
    const high = Math.min(view.y1 - lane.base, lane.height * 1.04);
    const room = (high - low) * place.scaleY;
    for (const depth of room > 12 ? ticks(low, high, room / 56) : []) {
      const y = Math.round(place.py(lane.base + depth)) + 0.5;
      context.fillStyle = faint;
      context.fillRect(MARGIN.left, y - 0.5, place.width, 1);
      context.fillStyle = label;
      if (freeTick(y)) context.fillText(short(depth), MARGIN.left - 8, Math.min(y, floor - 2));
    }
    if (layout.lanes.length > 1) drawLaneName(context, lane, place, label, free);
  }
  drawCallAxis(context, view, place, label, floor);
}

/** A function that is true of a place on a line if it lies `least` from all that it was true of. */
export function apart(least) {
  const taken = [];
  return (place) => {
    if (taken.some((other) => Math.abs(other - place) < least)) return false;
    taken.push(place);
    return true;
  };
}

// Above its lane, if it is in sight and no other name stands there.
function drawLaneName(context, lane, place, colour, free) {
  const y = place.py(lane.base + lane.height) - 8;
  if (y < MARGIN.top - 2 || y > MARGIN.top + place.height || !free(y)) return;
  context.save();
  context.fillStyle = colour;
  context.textAlign = "left";
  context.fillText(visible(lane.name).slice(0, 60), MARGIN.left + 6, y);
  context.restore();
}

function drawCallAxis(context, view, place, colour, floor) {
  context.fillStyle = colour;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const call of ticks(view.x0, view.x1 - 1, place.width / 90)) {
    const x = place.px(call + 0.5);
    if (x < MARGIN.left || x > MARGIN.left + place.width) continue;
    context.fillRect(Math.round(x), floor + 6, 1, 3);
    context.fillText(String(call), x, floor + 10);
  }
}
