// The picker of the number that colours text and strip. In the bar of the page it is the Streamlit
// component `mwviz.metric`: no data in, nothing out, as the workbench is told in the browser.

import { METRICS } from "./metrics.js";
import { select } from "./select.js";
import { askForNumber, listenForTold } from "./shownnumber.js";
import { readTheme } from "./theme.js";
import { element } from "./tooltip.js";

const SAYS = "The number that text and strip show of each sampled token";
const WORDS = Object.fromEntries(METRICS);
const instances = new WeakMap();

/** A select with every number; `choose` gets the one that is picked. */
export function metricPicker(choose) {
  const made = select(SAYS, METRICS.map(([kind, words]) => [words, kind]), choose);
  made.className = "mw-metric";
  return made;
}

/** Has a picker show `kind`, and say of which numbers there is none. */
export function showMetric(picker, { kind, known }) {
  for (const one of picker.options) one.textContent = `${WORDS[one.value]}${known.includes(one.value) ? "" : " (not known)"}`;
  picker.value = kind;
}

export function metric({ parentElement }) {
  let mounted = instances.get(parentElement);
  if (!mounted) {
    mounted = mount(parentElement);
    instances.set(parentElement, mounted);
  }
  mounted.dress();
  return () => {
    mounted.destroy();
    instances.delete(parentElement);
  };
}

function mount(parent) {
  const root = element("label", "mwm");
  const style = element("style", "", STYLE);
  const picker = metricPicker(askForNumber);
  root.append(style, element("span", "", "metric"), picker);
  parent.append(root);
  const deaf = listenForTold((now) => showMetric(picker, now));
  return {
    dress() {
      const theme = readTheme(root);
      for (const name of ["ink", "border", "background", "raised", "accent", "font"]) root.style.setProperty(`--mwm-${name}`, theme[name]);
    },
    destroy() {
      deaf();
      root.remove();
    },
  };
}

const STYLE = `
  .mwm { display: flex; align-items: center; gap: 8px; font: 13px var(--mwm-font); color: var(--mwm-ink); white-space: nowrap; }
  .mwm select { font: inherit; color: inherit; height: 40px; padding: 0 6px; border-radius: 8px; border: 1px solid var(--mwm-border); background: var(--mwm-raised); cursor: pointer; }
  .mwm select:hover { border-color: var(--mwm-accent); }
  .mwm select:focus-visible { outline: none; box-shadow: 0 0 0 2px var(--mwm-accent); }
`;
