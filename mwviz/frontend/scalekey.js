// The key to the colours of a number: a strip of its tints with words or numbers at both ends.

import { short } from "./text.js";
import { metricTint } from "./theme.js";
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
export function endsOf({ kind, signed, low, scale, unit, even }) {
  if (signed) return ENDS[kind];
  return [even ? "0" : digits(low), `${digits(scale)} ${unit}`];
}

/** The strip as an element. */
export function scaleKey(theme, metric) {
  const box = element("span", "mw-key");
  const strip = element("span", "mw-chip");
  const levels = metric.signed ? STEPS : STEPS.filter((level) => level >= 0);
  const tints = levels.map((level) => (level ? metricTint(metric, level, theme) : theme.background));
  strip.style.width = "76px";
  strip.style.background = `linear-gradient(90deg, ${tints.join(", ")})`;
  const [least, most] = endsOf(metric);
  box.append(least, strip, most);
  box.title = `Up to ${digits(metric.scale)} ${metric.unit}${metric.banded ? `; none up to the floor, ${digits(metric.floor)}` : ""}`;
  return box;
}

const digits = (number) => (number >= 1000 ? short(number) : String(Number(number.toPrecision(2))));
