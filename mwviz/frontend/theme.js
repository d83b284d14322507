// Colours of the drawings: Streamlit's theme where it has one, our own for what it cannot know.

const LIGHT = {
  given: "#CDD5DE",
  sampled: "#4C97AD",
  fall: "#5B6672",
};
const DARK = {
  given: "#4C5662",
  sampled: "#3F93AB",
  fall: "#AEB8C4",
};

/** Colours and font for `element`, from the CSS variables that Streamlit sets on its parents. */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const get = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const background = get("--st-background-color", "#ffffff");
  const dark = luminance(background) < 0.4;
  return {
    ...(dark ? DARK : LIGHT),
    dark,
    background,
    raised: get("--st-secondary-background-color", dark ? "#262730" : "#f0f2f6"),
    ink: get("--st-text-color", dark ? "#fafafa" : "#31333f"),
    border: get("--st-border-color", dark ? "#41444e" : "#d5d8de"),
    accent: get("--st-primary-color", "#ff4b4b"),
    font: get("--st-font", "sans-serif"),
  };
}

/** `colour` (#rgb, #rrggbb or rgb()) with `alpha` from 0 to 1. */
export function fade(colour, alpha) {
  const [r, g, b] = channels(colour);
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/** `colour` mixed with `share` (0 to 1) of `other`. */
export function mix(colour, other, share) {
  const to = channels(other);
  const mixed = channels(colour).map((value, i) => Math.round(value + (to[i] - value) * share));
  return `rgb(${mixed.join(", ")})`;
}

/** Relative luminance of `colour`, 0 (black) to 1 (white). */
export function luminance(colour) {
  const [r, g, b] = channels(colour).map((value) => (value / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function channels(colour) {
  const hex = colour.match(/^#([0-9a-f]{3,8})$/i);
  if (!hex) return (colour.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
  const digits = hex[1].length < 6 ? [...hex[1]].map((d) => d + d).join("") : hex[1];
  return [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
}
