// The words around the drawings: titles, captions, keys to colours, labels for screen readers.

import { AGREE } from "./classes.js";
import { driftLabel } from "./driftpane.js";
import { driftKey, showClasses } from "./frame.js";
import { maskLabel } from "./maskpane.js";
import { timelineLabel } from "./timelinepane.js";
import { drift, maskCaption } from "./tips.js";

/** Titles, captions, colour keys and labels, in words that follow from what is shown. */
export function sayAll(bench, page) {
  if (!bench.model) return;
  const { model, under, shownCall, selected } = bench;
  const { timeline, mask, text, drift: strip } = page.panes;
  const measured = under.metric.kind === "drift";
  timeline.caption.textContent = "Each column is the context of one call, its first token at the bottom, its height in tokens. What was evicted falls away at the cut; rust below: the call's tokens see wrong text in training.";
  mask.title.textContent = `Who sees what under ${under.view.name}`;
  mask.caption.textContent = maskCaption(bench);
  mask.caption.title = mask.caption.textContent;
  text.title.textContent = `Text of call ${shownCall}`;
  const junction = model.tree.junctions.find(({ call, depth }) => call === shownCall && depth >= 0);
  const change = junction ? ` Struck through: what the ${junction.kind.replaceAll("_", " ")} before it removed.` : "";
  const heat = measured ? "Colour: drift of each sampled token." : "Colour: how much wrong text each sampled token sees.";
  const about = selected && selected.target !== null ? drift(under, selected.target) : "";
  const marked = about && under.leaks.byTarget[selected.target] ? " Underlined: text that training hides from it or wrongly shows it." : "";
  text.caption.textContent = about ? about + marked : `The context as call ${shownCall} had it. ${heat}${change}`;
  for (const one of page.metrics) one.setAttribute("aria-pressed", String(one.dataset.value === under.metric.kind));
  page.metrics[0].disabled = !under.comparison;
  strip.title.textContent = measured ? `Drift under ${under.view.name}` : `Wrong keys under ${under.view.name}`;
  strip.caption.textContent = measured
    ? `Change of each sampled token's log-probability, in nats, in order. Band: the floor, ${under.metric.floor.toPrecision(2)}. Rust line: its context differs. Grey: not trained (coverage ${percent(under.view.coverage)}).`
    : `${under.comparison ? "How" : `Drift is not measured yet: run a model on ${under.view.name}. Until then: how`} many tokens each sampled token sees wrongly. Grey: not trained (coverage ${percent(under.view.coverage)}).`;
  strip.caption.title = strip.caption.textContent;
  keysOf(bench, page, measured);
  labels(bench, page);
}

// Two digits near the ends, so that 99.9 % never reads as all.
const percent = (share) => `${(100 * share).toFixed(share < 1 && (share > 0.99 || share < 0.01) ? 1 : 0)} %`;

function keysOf(bench, page, measured) {
  const { drift: strip, text } = page.panes;
  showClasses(page, bench.overlay === "difference" ? bench.under.kinds : new Set([AGREE]));
  for (const pane of [strip, text]) pane.scale?.remove();
  if (!measured) return;
  for (const pane of [strip, text]) pane.keys.append((pane.scale = driftKey(bench.theme)));
}

function labels(bench, { panes }) {
  const set = (pane, selector, words) => pane.box.querySelector(selector).setAttribute("aria-label", words);
  set(panes.timeline, ".mw-stage", timelineLabel(bench));
  set(panes.mask, ".mw-mask", maskLabel(bench));
  set(panes.text, ".mw-text", `Text of call ${bench.shownCall}: left and right move by token, Enter selects.`);
  set(panes.drift, ".mw-drift", driftLabel(bench));
}
