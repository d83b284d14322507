// The workbench's elements: four panes with titles, tools, keys to their colours and captions.

import { NAMES } from "./classes.js";
import { KEPT } from "./history.js";
import { metricPicker } from "./metricpicker.js";
import { OVERLAYS } from "./pixels.js";
import { select } from "./select.js";
import { STYLE } from "./style.js";
import { classColours, edgeOf } from "./theme.js";
import { element } from "./tooltip.js";

const KEYS = {
  timeline: [["given", "given to the model"], ["sampled", "sampled"], ["copy", "shown again"], ["fall", "evicted"], ["leak", "sees wrong text"]],
  mask: [["agree", "as sampled"], ["future", "future"], ["erased", "erased"], ["stale", "stale"], ["foreign", "foreign"], ["lost", "lost"], ["shifted", "shifted"], ["untrained", "not trained"]],
  text: [["S", "system"], ["U", "user"], ["A", "agent"], ["T", "tool"], ["M", "memory"], ["sampled", "sampled"], ["given", "given"], ["gone", "evicted"], ["added", "only here"]],
  drift: [],
};
const BESIDE = new Set(["timeline", "drift"]); // wide panes: the keys stand beside the title
const TITLES = { timeline: "Contexts", mask: "Who sees what", text: "Text", drift: "Drift" };
const OVERLAY_WORDS = { difference: "difference", view: "this view", exact: "what it saw" };
const SHAPES = [["contexts", "contexts"], ["tree", "tree"], ["nodes", "nodes"]];
const KEPT_WORDS = { last: "+ last evicted", all: "+ all evicted", none: "context only" };

/** Builds everything but the stages; `acts` are what its buttons do. */
export function buildFrame(parent, stages, acts) {
  const root = element("div", "mw");
  const style = element("style");
  style.textContent = STYLE;
  root.append(style);
  const panes = {};
  for (const name of Object.keys(TITLES)) root.append((panes[name] = makePane(name, stages[name])).box);
  stages.timeline.after(stages.tree, stages.nodes);
  const made = fillTools(panes, acts);
  for (const [name, pane] of Object.entries(panes)) {
    const table = button(pane.tools, "", () => acts.table(name), "The same as a table (key t)", "mw-icon rows");
    const full = button(pane.tools, "", () => acts.full(name), "Full screen (key f)", "mw-icon grow");
    for (const one of [table, full]) one.setAttribute("aria-label", `${TITLES[name]}: ${one.title}`); // four are alike
  }
  const tabs = makeTabs(root, panes, acts.repaint);
  const tip = element("div", "mw-tip");
  const said = element("div", "mw-said");
  said.setAttribute("aria-live", "polite");
  const note = element("div", "mw-note");
  note.setAttribute("role", "status");
  note.hidden = true;
  root.append(tip, said, note);
  parent.append(root);
  return { root, panes, tip, said, note, tabs, ...made };
}

function makePane(name, stage) {
  const box = element("section", `mw-pane ${name}`);
  const head = element("div", "mw-head");
  const title = element("h4", "", TITLES[name]);
  const keys = element("div", "mw-keys");
  const chips = KEYS[name].map(([key, words]) => chip(keys, key, words));
  const tools = element("span", "mw-tools");
  const foot = element("div", "mw-foot");
  const caption = element("p", "mw-caption");
  head.append(title, tools);
  box.append(head, stage, foot, caption);
  if (BESIDE.has(name)) title.after(keys);
  else foot.append(keys);
  return { box, title, keys, chips, tools, foot, caption };
}

function fillTools(panes, acts) {
  const { timeline, mask, text, drift } = panes;
  const shapes = group(timeline.tools, SHAPES, acts.shape);
  button(timeline.tools, "Find", () => acts.find(), "Find text, evicted text too (key /)");
  button(timeline.tools, "Go to", () => acts.goTo(), "Go to a call, a token, a part of the mask (key g)");
  button(timeline.tools, "?", acts.help, "Keys");
  const overlays = group(mask.tools, OVERLAYS.map((name) => [OVERLAY_WORDS[name], name]), acts.overlay);
  const packed = button(mask.tools, "packed", acts.order, "Packed order, which the kernel gets, instead of time order (key x)");
  const small = element("span", "mw-tools");
  const worst = button(small, "worst wins", acts.mode, "At a distance show the worst class in each pixel instead of the mix of all");
  button(small, "1:1", acts.exact, "One pixel a token, around the selection");
  button(small, "PNG", acts.png, "Save this picture");
  button(small, "CSV", acts.counts, "Save how many cells of each class are in sight, by call");
  mask.foot.append(small);
  const kept = select("What has left is struck through where it stood", KEPT.map((name) => [KEPT_WORDS[name], name]), acts.kept);
  text.tools.append(kept);
  const metrics = [text, drift].map(({ tools }) => {
    const picker = metricPicker(acts.metric);
    tools.append(picker);
    return picker;
  });
  const pin = button(text.tools, "pin", acts.pin, "Pin this call: later ones show what differs from it (key p)");
  button(text.tools, "‹", () => acts.call(-1), "The call before (key k)");
  button(text.tools, "›", () => acts.call(1), "The next call (key j)");
  const copying = element("span", "mw-tools");
  const copy = button(copying, "copy with ids", acts.copy, "Copy what is marked, or the whole context, a token a line with its id");
  text.foot.append(copying);
  button(drift.tools, "largest", acts.largest, "Go to the sampled token with the largest drift (key d)");
  button(drift.tools, "next", acts.next, "Go to the next largest (key d)");
  return { shapes, overlays, packed, worst, kept, metrics, pin, copy };
}

// Roles are told by a letter beside their edge.
const isRole = (key) => key.length === 1;

function chip(head, key, words) {
  const label = element("span", "mw-key");
  const made = element("span", "mw-chip");
  made.dataset.key = key;
  label.append(made);
  if (isRole(key)) {
    label.classList.add("role");
    label.append(element("span", "mw-letter", key));
  }
  label.append(words);
  head.append(label);
  return made;
}

/** A button in `parent` that calls `act`. */
export function button(parent, words, act, title, name = "") {
  const made = element("button", name, words);
  made.type = "button";
  if (title) made.title = title;
  if (title && words.length < 2) made.setAttribute("aria-label", title);
  made.addEventListener("click", () => act());
  parent.append(made);
  return made;
}

function group(parent, choices, act) {
  const box = element("span", "mw-group");
  box.setAttribute("role", "group");
  const made = choices.map(([words, value]) => {
    const one = button(box, words, () => act(value));
    one.dataset.value = value;
    return one;
  });
  parent.append(box);
  return made;
}

function makeTabs(root, panes, repaint) {
  const box = element("div", "mw-tabs");
  box.setAttribute("role", "tablist");
  const names = ["mask", "text", "drift"];
  const show = (shown) => {
    for (const name of names) panes[name].box.classList.toggle("shown", name === shown);
    for (const tab of box.children) tab.setAttribute("aria-selected", String(tab.dataset.name === shown));
    repaint();
  };
  for (const name of names) {
    const tab = button(box, name === "mask" ? "Mask" : TITLES[name], () => show(name));
    tab.setAttribute("role", "tab");
    tab.dataset.name = name;
  }
  show("mask");
  root.insertBefore(box, panes.mask.box);
  // The one in front; null where all are side by side.
  const front = () => (root.classList.contains("narrow") ? names.find((name) => panes[name].box.classList.contains("shown")) : null);
  return { show, front };
}

/** Colours of the frame: theme variables and the chips of every key. */
export function dressFrame({ root, panes }, theme) {
  const { style } = root;
  style.color = theme.ink;
  style.fontFamily = theme.font;
  for (const name of ["background", "border", "raised", "accent", "mono"]) style.setProperty(`--mw-${name}`, theme[name]);
  const classes = classColours(theme, NAMES);
  const shade = (name) => `rgb(${classes[NAMES.indexOf(name)].shade.join(", ")})`;
  const plain = (name) => classes[NAMES.indexOf(name)].css;
  const lines = (angle, ink, fill) => `repeating-linear-gradient(${angle}deg, ${ink} 0 1.2px, transparent 1.2px 4px), ${fill}`;
  const fills = {
    given: theme.given,
    sampled: theme.sampled,
    copy: lines(135, `${theme.ink}66`, theme.given),
    fall: `linear-gradient(90deg, ${theme.fall}99, transparent)`,
    leak: theme.leak,
    added: `linear-gradient(transparent 78%, ${theme.accent} 78%), ${theme.raised}`,
    gone: `linear-gradient(transparent 46%, ${theme.ink} 46% 60%, transparent 60%), ${theme.raised}`,
    agree: plain("agree"),
    shifted: plain("shifted"),
    future: lines(135, shade("future"), plain("future")),
    erased: plain("erased"),
    stale: `radial-gradient(circle, ${shade("stale")} 1px, transparent 1.3px) 0 0 / 5px 5px, ${plain("stale")}`,
    foreign: lines(90, shade("foreign"), plain("foreign")),
    untrained: lines(135, shade("untrained"), plain("untrained")),
    lost: lines(45, shade("lost"), plain("lost")),
  };
  for (const { chips } of Object.values(panes)) {
    for (const one of chips) {
      const { key } = one.dataset;
      one.style.background = isRole(key) ? edgeOf(key, theme, { sampled: true }) : fills[key];
      if (key === "erased") one.style.border = `1.5px solid ${shade("erased")}`;
    }
  }
}

/** Shows the keys of only those roles that `letters` holds; where it holds none, of what was sampled. */
export function showRoles({ panes }, letters) {
  for (const one of panes.text.chips) {
    const { key } = one.dataset;
    if (isRole(key)) one.parentElement.hidden = !letters.has(key);
    else if (key === "sampled" || key === "given") one.parentElement.hidden = letters.size > 0;
  }
}

/** Shows the keys of only those classes that `kinds` (a set of indices) holds. */
export function showClasses({ panes }, kinds) {
  for (const one of panes.mask.chips) one.parentElement.hidden = !kinds.has(NAMES.indexOf(one.dataset.key));
}
