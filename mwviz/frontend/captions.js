// The words around the drawings: titles, captions, keys to colours, labels for screen readers.

import { AGREE, UNTRAINED } from "./classes.js";
import { driftLabel } from "./driftpane.js";
import { showClasses, showRoles } from "./frame.js";
import { maskLabel } from "./maskpane.js";
import { showMetric } from "./metricpicker.js";
import { nodesLabel } from "./nodespane.js";
import { rolesIn } from "./rows.js";
import { scaleKey } from "./scalekey.js";
import { tellNumber } from "./shownnumber.js";
import { timelineLabel } from "./timelinepane.js";
import { NOTHING, drift, maskCaption } from "./tips.js";
import { treeLabel } from "./treepane.js";

const CONTEXTS = "Each column is the context of one call, its first token at the bottom, its height in tokens. What was evicted falls away at the cut; rust below: the call's tokens see wrong text in training.";
const OF_NO_VIEW = new Set(["true", "agent", "entropy", "advantage", "beside"]);
const TREE = "Each bar is a run of calls that only add to their context; where a context parts, a line leads from the last call whose text is kept. Hollow end: the reply was thrown away and sampled again. Bluer bars: another agent.";
const NODES = "Each node is a run of calls that only add to their context, larger for more calls; a line leads to it from the run that wrote the last text it keeps. Rust ring: its tokens see wrong text in training. Hollow: thrown away and sampled again.";
const SHAPES = { contexts: ["Contexts", CONTEXTS], tree: ["Tree", TREE], nodes: ["Tree as nodes", NODES] };

/** Titles, captions, colour keys, pressed buttons and labels, in words that follow from what is shown. */
export function sayAll(bench, page) {
  if (!bench.model) return;
  const { under } = bench;
  const { timeline, mask } = page.panes;
  [timeline.title.textContent, timeline.caption.textContent] = SHAPES[bench.shape];
  for (const one of timeline.chips) one.parentElement.hidden = bench.shape !== "contexts" && one.dataset.key !== "leak";
  mask.title.textContent = `Who sees what under ${under.view.name}`;
  mask.caption.textContent = maskCaption(bench);
  mask.caption.title = mask.caption.textContent;
  sayText(bench, page.panes.text);
  sayStrip(bench, page.panes.drift);
  press(bench, page);
  keysOf(bench, page);
  labels(bench, page);
}

function sayText({ model, under, selected, shownCall, pinned, kept }, { title, caption }) {
  const beside = pinned && pinned.call !== shownCall;
  title.textContent = beside ? `Text of call ${shownCall}, beside call ${pinned.call}` : `Text of call ${shownCall}`;
  const about = !beside && selected && selected.target !== null ? drift(under, selected.target) : "";
  const marked = about && under.leaks.byTarget[selected.target] ? " Underlined: text that training hides from it or wrongly shows it." : "";
  caption.textContent = about ? about + marked : `${gone(model, shownCall, { beside, pinned, kept })} ${colourOf(under)}`;
  caption.title = caption.textContent;
}

// What the tint behind a sampled token says, or why it says something else than was asked for.
function colourOf({ metric, missing }) {
  if (metric.awaited) return `Loading ${metric.words}.`;
  const floor = metric.banded ? ` (none up to the floor, ${metric.floor.toPrecision(2)})` : "";
  const told = `Colour: ${metric.words} of each sampled token${floor}; dimmed: not trained.`;
  return missing ? `${capital(missing.words)} is not known because ${missing.why}. ${told}` : told;
}

const capital = (words) => `${words[0].toUpperCase()}${words.slice(1)}`;

// What the struck-through text is.
function gone(model, call, { beside, pinned, kept }) {
  if (beside) return `Struck through: only in call ${pinned.call}. Line below: only in call ${call}.`;
  if (kept === "none") return `The context as call ${call} had it.`;
  if (kept === "all") return `Struck through: all that had left by call ${call}, where it stood.`;
  const junction = model.tree.junctions.find((found) => found.call === call && found.depth >= 0);
  return junction ? `Struck through: what the ${junction.kind.replaceAll("_", " ")} before it removed.` : `The context as call ${call} had it; no eviction just before it.`;
}

const EACH = "Log-probability of each sampled token";
const TALL = "the taller, the less likely.";

// What the strip shows of each number, without its floor and what is not trained.
const STRIPS = {
  drift: () => "Change of each sampled token's log-probability, in nats, in order. Rust line: its context differs.",
  size: () => "How far each sampled token's log-probability moves, in nats.",
  view: ({ view }) => `${EACH} under ${view.name}, in nats: ${TALL}`,
  true: () => `${EACH} in the context it was sampled from, scored anew: ${TALL}`,
  agent: () => `${EACH} as the agent's engine recorded it: ${TALL}`,
  gap: ({ view }) => `${EACH} under ${view.name}, at the sampling temperature, minus the recorded one, in nats.`,
  entropy: () => "How undecided the model is about each sampled token in the context it was sampled from, in nats: 0 is certain.",
  change: (under) => `How much more (+) or less (−) undecided ${under.view.name} leaves the model about each sampled token, in nats${ofSeveral(under, "the first")}.`,
  kl: ({ view }) => `Distance of the whole prediction of each sampled token from that in its true context: KL(what it saw ‖ ${view.name}), in nats.`,
  weight: ({ view }) => `Share of the loss of ${view.name} that each sampled token has, against an even share among all: 1 in an exact view.`,
  advantage: () => "How much better (+) or worse (−) the reward of this rollout is than that of others of its task, in their spreads: a policy gradient multiplies the loss of each token by it.",
  beside: ({ metric }) => metric.about,
  terms: ({ view }) => `How many loss terms ${view.name} has on each sampled token; an exact view has one.`,
  leaks: (under) => `How many tokens each sampled token sees wrongly${ofSeveral(under, "in the last")}.`,
};

const ofSeveral = (under, which) => (under.number("terms").scale > 1 ? `; of several loss terms, ${which}` : "");

function sayStrip({ model, under }, { title, caption }) {
  const { metric, view, missing } = under;
  const name = capital(metric.words);
  const ofNone = OF_NO_VIEW.has(metric.kind);
  title.textContent = ofNone ? name : `${name.replace(", this view", "")} under ${view.name}`;
  const told = [STRIPS[metric.kind](under)];
  if (metric.awaited) told.unshift(`Loading ${metric.words}.`);
  if (metric.banded) told.push(`Band: the floor, ${metric.floor.toPrecision(2)} nats.`);
  if (!ofNone) told.push(`Grey: not trained (coverage ${percent(view.coverage)}).`);
  if (missing) told.unshift(`${capital(missing.words)} is not known because ${missing.why}. Shown until then:`);
  caption.textContent = model.targets ? told.join(" ") : NOTHING;
  caption.title = caption.textContent;
}

// Buttons and pickers that say what is on.
function press(bench, page) {
  const { under, overlay, mode, order, kept, pinned } = bench;
  const on = (made, is) => made.setAttribute("aria-pressed", String(is));
  for (const one of page.shapes) on(one, one.dataset.value === bench.shape);
  for (const one of page.overlays) on(one, one.dataset.value === overlay);
  const now = { kind: under.missing?.kind ?? under.metric.kind, known: under.known };
  for (const picker of page.metrics) showMetric(picker, now);
  tellNumber(now);
  page.kept.value = kept;
  page.kept.disabled = Boolean(pinned);
  on(page.worst, mode === "worst");
  on(page.packed, order === "packed");
  on(page.pin, Boolean(pinned));
}

// Two digits near the ends, so that 99.9 % never reads as all.
const percent = (share) => `${(100 * share).toFixed(share < 1 && (share > 0.99 || share < 0.01) ? 1 : 0)} %`;

function keysOf({ model, overlay, under, theme, order, pinned, shownCall }, page) {
  const { drift: strip, text } = page.panes;
  showClasses(page, overlay === "difference" ? new Set([...under.kinds, ...(order === "packed" ? [UNTRAINED] : [])]) : new Set([AGREE]));
  showRoles(page, rolesIn(model.tree));
  text.chips.find(({ dataset }) => dataset.key === "added").parentElement.hidden = !pinned || pinned.call === shownCall;
  for (const pane of [strip, text]) {
    pane.scale?.remove();
    pane.keys.append((pane.scale = scaleKey(theme, under.metric)));
  }
}

function labels(bench, { panes }) {
  const set = (pane, selector, words) => pane.box.querySelector(selector).setAttribute("aria-label", words);
  set(panes.timeline, ".mw-stage", timelineLabel(bench));
  set(panes.timeline, ".mw-tree", treeLabel(bench));
  set(panes.timeline, ".mw-nodes", nodesLabel(bench));
  set(panes.mask, ".mw-mask", maskLabel(bench));
  set(panes.text, ".mw-text", `Text of call ${bench.shownCall}: left and right move by token, Enter selects.`);
  set(panes.drift, ".mw-drift", driftLabel(bench));
}
