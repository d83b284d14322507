// Colours of the drawings: Streamlit's theme where it has one, our own for what it cannot know.

const LIGHT = {
  given: "#CDD5DE",
  sampled: "#4C97AD",
  fall: "#5B6672",
  leak: "#C1440E",
};
const DARK = {
  given: "#4C5662",
  sampled: "#3F93AB",
  fall: "#AEB8C4",
  leak: "#FF7A3D",
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
    mono: get("--st-code-font", "monospace"),
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

/** `colour` (#rgb, #rrggbb or rgb()) as [r, g, b], 0 to 255. */
export function channels(colour) {
  const hex = colour.match(/^#([0-9a-f]{3,8})$/i);
  if (!hex) return (colour.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
  const digits = hex[1].length < 6 ? [...hex[1]].map((d) => d + d).join("") : hex[1];
  return [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
}

/**
 * The 4 px edge of a role as a CSS background: system solid, user dashed, tool striped, memory dotted; agent
 * and unknown ones in the colour of what is sampled, grey where nothing is. The letter stands beside it.
 */
export function edgeOf(role, theme, { sampled }) {
  const ink = mix(theme.background, theme.ink, 0.62);
  const fill = EDGES[role]?.(ink, theme, sampled) ?? (sampled ? theme.sampled : theme.given);
  return `${fill.includes("gradient") ? fill : `linear-gradient(${fill}, ${fill})`} left / 4px 100% no-repeat`;
}

const EDGES = {
  S: (ink) => ink,
  U: (ink) => `repeating-linear-gradient(${ink} 0 7px, transparent 7px 10px)`,
  A: (_, theme, sampled) => (sampled ? theme.sampled : theme.given),
  T: (ink, theme) => `repeating-linear-gradient(135deg, ${ink} 0 1.5px, ${theme.given} 1.5px 5px)`,
  M: (ink) => `repeating-linear-gradient(${ink} 0 2px, transparent 2px 5px)`,
};

// Pair classes as in mwviz/figures/palette.py, with the shade of each one's mark.
export const CLASS_COLOURS = {
  light: {
    agree: ["#C8C8C8"], future: ["#C1440E", "#8F2F06"], erased: ["#E8A88B", "#B8501F"], stale: ["#F5B800", "#A87C00"],
    foreign: ["#7A3E9D", "#54256F"], lost: ["#1F6FB4", "#12497A"], shifted: ["#A9B4C2"], self: ["#1A1A1A"],
  },
  dark: {
    agree: ["#4A4F57"], future: ["#FF7A3D", "#C4511A"], erased: ["#8F4A2B", "#E07A48"], stale: ["#FFD24A", "#B8901A"],
    foreign: ["#B388D9", "#835AAB"], lost: ["#5AA9F0", "#2F78BC"], shifted: ["#5D6B7E"], self: ["#E6E8EB"],
  },
};
const DRIFT_COLOURS = ["#2166AC", "#4393C3", "#92C5DE", "#D1E5F0", "#F7F7F7", "#FEE0B6", "#FDB863", "#E08214", "#B35806"];

/** Colour of each pair class by its index in `names`: {base, shade} as [r, g, b]. */
export function classColours(theme, names) {
  const faint = [0.04, 0.15].map((share) => mix(theme.background, theme.ink, share));
  const table = { ...CLASS_COLOURS[theme.dark ? "dark" : "light"], untrained: faint };
  return names.map((name) => {
    const [base, shade] = table[name] ?? [theme.background];
    return { base: channels(base), shade: channels(shade ?? base), css: `rgb(${channels(base).join(", ")})` };
  });
}

// Colour of drift at `level` (-1 to 1): blue to brown, the background itself at 0.
function driftColour(level, theme) {
  if (!level) return theme.background;
  const size = Math.min(Math.max(Math.abs(level), 0.12), 1);
  if (theme.dark) return mix(theme.background, level < 0 ? "#5AA9F0" : "#FDA04A", 0.15 + 0.75 * size);
  return DRIFT_COLOURS[4 + Math.sign(level) * Math.max(Math.round(4 * size), 1)];
}

// The same as a tint behind text: small drift stays faint, so that large drift stands out.
function driftTint(level, theme) {
  return driftColour(Math.sign(level) * Math.max(level * level, 0.12), theme);
}

// Tint of a count of wrong keys at `level` (0 to 1).
function leakTint(level, theme) {
  return mix(theme.background, theme.leak, 0.15 + 0.6 * level * level);
}

/** Whether a number at `level` lies beyond the end of a metric's colours, and is to be marked. */
export function isClipped({ clip }, level) {
  return Math.abs(level) > clip.level;
}

// Where `level` lies on the colours: -1 to 1, the end colour for all beyond.
function clipped({ clip }, level) {
  return Math.sign(level) * Math.min(Math.abs(level) / clip.level, 1);
}

/** Colour behind a token whose number lies at `level`: blue to brown, rust, or grey by its kind. */
export function metricTint(metric, at, theme) {
  const { kind, signed } = metric;
  const level = clipped(metric, at);
  if (signed || kind === "size") return driftTint(level, theme);
  return kind === "leaks" ? leakTint(level, theme) : mix(theme.background, theme.ink, 0.06 + 0.5 * level * level);
}

/** The same with a corner in ink if the number lies beyond the end of the colours: CSS. */
export function markedTint(metric, level, theme) {
  const colour = metricTint(metric, level, theme);
  return isClipped(metric, level) ? `linear-gradient(225deg, ${inkOn(colour)} 4.5px, transparent 5px), ${colour}` : colour;
}

/** Colour of a bar: it needs more strength than a tint behind text. */
export function metricBar(metric, at, theme) {
  const { kind, signed } = metric;
  const level = clipped(metric, at);
  if (kind === "leaks") return theme.leak;
  if (signed || kind === "size") return driftColour(Math.sign(level) * Math.max(Math.abs(level), 0.75), theme);
  return mix(theme.background, theme.ink, 0.55);
}

/** Ink that is readable on `colour`: black or white, at least 4.5 to 1. */
export function inkOn(colour) {
  return luminance(colour) > 0.18 ? "#000000" : "#FFFFFF";
}
