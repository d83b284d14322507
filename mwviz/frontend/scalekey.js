// The key to the colours of a number: a strip of its tints with words or numbers at both ends.

import { grouped, short } from "./text.js";
import { markedTint, metricTint } from "./theme.js";
import { element } from "./tooltip.js";

const ENDS = {
  drift: ["less likely", "more likely under this view"],
  gap: ["less likely", "more likely than recorded"],
  change: ["less undecided", "more undecided under this view"],
  advantage: ["worse", "better than others of its task"],
  beside: ["less", "more in B"],
};
const STEPS = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1];

/** What stands beside the strip of a metric: words where it has a sign, else its range and unit. */
export function endsOf({ kind, signed, low, clip, unit, even }) {
  if (signed) return ENDS[kind];
  return [even ? "0" : digits(Math.min(low, clip.number)), `${digits(clip.number)} ${clip.number === 1 ? unit.replace(/s$/, "") : unit}`];
}

/** What the mark of numbers beyond the colours means; "" where there is none. */
export function beyondOf({ signed, clip, unit, even }) {
  return clip.beyond ? `${grouped(clip.beyond)} beyond ${signed ? "±" : ""}${digits(clip.number)}${signed && !even ? ` ${unit}` : ""}` : "";
}

/** The strip as an element, and the mark of what lies beyond it where anything does. */
export function scaleKey(theme, metric) {
  const box = element("span", "mw-key");
  if (metric.awaited) {
    box.textContent = "loading";
    return box;
  }
  const strip = element("span", "mw-chip");
  const levels = metric.signed ? STEPS : STEPS.filter((level) => level >= 0);
  const { clip, unit, floor } = metric;
  const tints = levels.map((level) => (level ? metricTint(metric, level * clip.level, theme) : theme.background));
  strip.style.width = "76px";
  strip.style.background = `linear-gradient(90deg, ${tints.join(", ")})`;
  const [least, most] = endsOf(metric);
  box.append(least, strip, most);
  box.title = `Full colour from ${digits(clip.number)} ${unit}${metric.banded ? `; none up to the floor, ${digits(floor)}` : ""}`;
  if (!clip.beyond) return box;
  const mark = element("span", "mw-chip");
  mark.style.background = markedTint(metric, metric.signed ? -1 : 1, theme);
  box.append(mark, beyondOf(metric));
  box.title += `, the 99.5th percentile of all that has a colour; ${grouped(clip.beyond)} beyond it, up to ${digits(metric.scale)}, have it too and are marked`;
  return box;
}

const digits = (number) => (number >= 1000 ? short(number) : String(Number(number.toPrecision(2))));
