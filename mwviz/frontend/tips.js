// What is under the pointer or the keys, in words.

import { ERASED, FOREIGN, FUTURE, LOST, NAMES, SHIFTED, STALE } from "./classes.js";
import { placeOf } from "./model.js";
import { counted, grouped, visible } from "./text.js";

/** What each pair class means, in a sentence. */
export const SENTENCES = {
  agree: "It sees this text, as it did when it was sampled.",
  future: "Time travel: training shows it text that was written later.",
  erased: "Time travel: training hides text that it saw; a later eviction is applied too early.",
  stale: "Training still shows it text that had already left its context.",
  foreign: "Training shows it text of another agent or branch.",
  lost: "Training hides text that it saw.",
  shifted: "It sees this text, but at another distance than when it was sampled.",
  self: "The token itself.",
  none: "Neither its true context nor the training view shows this text.",
  untrained: "It saw this text, but this view does not train the token.",
};
const NEUTRAL = new Set(["none", "self", "untrained"]); // no pair classes: the sentence says it all
const SEEN_WRONGLY = [
  [FUTURE, "written later"], [ERASED, "erased too early"], [STALE, "stale"], [FOREIGN, "of another branch"], [LOST, "lost"], [SHIFTED, "shifted"],
];

const SEEN = [
  [FUTURE, "sees the future", "see the future"], [ERASED, "misses what left later", "miss what left later"], [STALE, "sees what had left", "see what had left"],
  [FOREIGN, "sees other branches", "see other branches"], [LOST, "loses text", "lose text"],
];

/** {title, facts, words} of a mark; `cell` where it is one key of one target. */
export function describe(bench, mark) {
  if (mark.target !== null && mark.target !== undefined && mark.key !== null && mark.key !== undefined) return cell(bench, mark);
  if (mark.target !== null && mark.target !== undefined) return target(bench, mark);
  if (mark.key !== null && mark.key !== undefined) return key(bench, mark);
  return segment(bench, mark);
}

const quoted = (text) => `“${visible(text)}”`;

function nameOf(bench, at) {
  const { model } = bench;
  const call = model.callOf(at);
  return `call ${call}, token ${grouped(at - model.tree.targets.first[call])} ${quoted(model.words(model.nodeOf(at)))}`;
}

function cell(bench, { target: at, key: rank }) {
  const { model, under } = bench;
  const name = NAMES[under.classOf(at, rank)];
  const node = model.bornAt(rank);
  const writer = model.keyMark(rank).startsWith("sampled") ? "sampled in" : "first sent in";
  return {
    title: `${nameOf(bench, at)}  ⟵  ${quoted(model.words(node))}, ${writer} call ${model.keyCall(rank)}`,
    facts: `${NEUTRAL.has(name) ? "" : `${name.toUpperCase()}: `}${SENTENCES[name]} q ${grouped(at)}, k ${grouped(rank)}.`,
    words: visible(model.words(Math.max(node - 2, 0), 12)),
  };
}

function target(bench, mark) {
  const { model, under } = bench;
  const counts = under.counts(mark.target);
  const wrong = SEEN_WRONGLY.filter(([kind]) => counts.get(kind)).map(([kind, words]) => `${grouped(counts.get(kind))} ${words}`);
  const sees = wrong.length ? `Tokens it sees wrongly: ${wrong.join(", ")}.` : "It sees exactly what it saw when it was sampled.";
  const node = model.nodeOf(mark.target);
  return {
    title: nameOf(bench, mark.target).replace(/^c/, "C"),
    facts: `${drift(under, mark.target)} ${under.trained(mark.target) ? sees : ""}`.trim(),
    words: visible(model.words(Math.max(node - 6, 0), 16)),
  };
}

/** How far a target drifts and how likely it is, in a sentence or two. */
export function drift({ view, trained, number }, target) {
  if (!trained(target)) return `Not trained by ${view.name}.`;
  const metric = number("drift");
  if (!metric) return "";
  const nats = metric.value(target);
  const own = number("true")?.value(target) ?? null;
  const likely = own === null ? "" : ` It had a probability of ${share(own)}${nats ? `, here ${share(Math.min(own + nats, 0))}` : ""}.`;
  if (!nats) return `Drift inside the floor (${metric.floor.toPrecision(2)} nats).${likely}`;
  const less = nats < 0 ? "less" : "more";
  return `Drift ${nats > 0 ? "+" : "−"}${Math.abs(nats).toPrecision(3)} nats: ${times(Math.abs(nats))} ${less} likely under ${view.name}.${likely}`;
}

// A log-probability as a percentage, with no more digits than its one byte tells; the exact number
// stands in the card of the selected token.
function share(logprob) {
  const percent = 100 * Math.exp(logprob);
  return percent < 0.01 ? "under 0.01 %" : `about ${percent >= 99.5 ? percent.toFixed(1) : Number(percent.toPrecision(percent < 90 ? 1 : 2))} %`;
}

function times(nats) {
  const factor = Math.exp(nats);
  if (factor < 1.1) return `${((factor - 1) * 100).toPrecision(2)} %`;
  return factor < 100 ? `${factor.toPrecision(2)} times` : `${grouped(Number(factor.toPrecision(2)))} times`;
}

function key(bench, mark) {
  const { model, under } = bench;
  const node = model.bornAt(mark.key);
  const sampled = model.keyMark(mark.key).startsWith("sampled");
  const count = under.leaks.byKey[mark.key];
  return {
    title: `${quoted(model.words(node))}, ${sampled ? "sampled in" : "first sent in"} call ${model.keyCall(mark.key)}`,
    facts: count ? `${counted(count, "sampled token sees", "sampled tokens see")} it wrongly under ${under.view.name}.` : "No sampled token sees it wrongly.",
    words: visible(model.words(Math.max(node - 6, 0), 16)),
  };
}

function segment({ model }, mark) {
  const { tree, layout } = model;
  const { start, depth, length } = tree.segments;
  const { call, segment: index } = mark;
  const span = layout.spans.find((s) => s.segment === index && s.lane === mark.lane && s.from <= call && call < s.to);
  const size = length[index];
  const gone = span && layout.cuts.find((cut) => cut.lane === span.lane && cut.call === span.to);
  const how = gone && (gone.evicts ? `evicted before call ${span.to}` : `not in call ${span.to} (${gone.kind.replaceAll("_", " ")})`);
  const life = span ? `, in calls ${span.from}–${span.to - 1}${how ? `, ${how}` : ""}` : "";
  return {
    title: `Call ${call} of ${tree.calls.tip.length}, segment ${index}`,
    facts: `${counted(size, "token")} at depth ${grouped(depth[index])}–${grouped(depth[index] + size - 1)}${life}`,
    words: visible(tree.text(start[index], start[index] + Math.min(size, 16))).slice(0, 120),
  };
}

/** How many tokens see text wrongly, by what is wrong with it: the first names what is counted. */
export function wronglyTold(having) {
  const found = SEEN.filter(([kind]) => having[kind]);
  return found.map(([kind, one, many], i) => `${i ? grouped(having[kind]) : counted(having[kind], "token")} ${having[kind] === 1 ? one : many}`);
}

/** Said of the panes that draw sampled tokens where there are none. */
export const NOTHING = "Nothing was sampled in this rollout: there is no token to draw here.";

/** The one sentence under the mask about what is selected, or what to do. */
export function maskCaption(bench) {
  const { overlay, under, selected, model, order } = bench;
  if (selected && selected.target !== null && placeOf(model, selected) !== null && selected.key !== null) {
    const { title, facts } = describe(bench, selected);
    return `${title}. ${facts}`;
  }
  if (!model.targets) return NOTHING;
  if (order === "packed") return `The rows of ${under.view.name} as the kernel gets them: each place down looks at places across. Pale: seen, but without a loss term. White: masked.`;
  if (overlay === "exact") return "Grey: what each sampled token really saw. Rows are sampled tokens, columns text in the order it was written.";
  if (overlay === "view") return `Grey: what ${under.view.name} shows each sampled token. Right of the diagonal lies the future.`;
  const told = wronglyTold(under.having);
  if (!told.length) return `Under ${under.view.name} every trained token sees exactly the text it saw when it was sampled.`;
  return `${told.join(", ")}. Rows: sampled tokens; columns: all text in the order it was written, so the future lies right of the diagonal.`;
}
