// The Streamlit component `mwviz.inspector`: one sampled token in words and numbers. Small data (UTF-8
// JSON) in, nothing out: what a number is made of is told here, without a message.

import { effectOf, numbersOf, termsOf } from "./formulas.js";
import { leaveSaid } from "./leading.js";
import { counted, glyphs, grouped, visible } from "./text.js";
import { CLASS_COLOURS, inkOn, readTheme } from "./theme.js";
import { element } from "./tooltip.js";

const WORDS = Symbol.for("mwviz.words");
const ARRIVED = "mwviz-words";
const UNSCORED = "No model has scored this token under the view: choose Run on a model above.";
const MISSING = new Set(["erased", "lost"]);
const instances = new WeakMap();

export function inspector({ data, parentElement }) {
  if (data?.words) {
    window[WORDS] = data.words;
    window.dispatchEvent(new Event(ARRIVED));
    return undefined;
  }
  let card = instances.get(parentElement);
  if (!card) {
    card = mount(parentElement);
    instances.set(parentElement, card);
  }
  card.update(JSON.parse(new TextDecoder().decode(data)));
  return () => {
    card.destroy();
    instances.delete(parentElement);
  };
}

function mount(parent) {
  const root = element("div", "mwi");
  const style = element("style", "", STYLE);
  parent.append(root);
  root.tabIndex = 0;
  let explained = false;
  const card = { root, open: new Set(), told: null };
  const again = () => card.update(card.told);
  window.addEventListener(ARRIVED, again);
  const takeAway = leaveSaid(root);
  card.destroy = () => {
    window.removeEventListener(ARRIVED, again);
    takeAway();
    root.remove();
  };
  root.addEventListener("keydown", (event) => {
    if (event.key !== "e" || event.ctrlKey || event.metaKey || event.altKey) return;
    explained = !explained;
    for (const button of root.querySelectorAll(".mwi-number")) toggle(card, button, explained);
  });
  card.update = (data) => {
    card.told = data;
    const theme = readTheme(root);
    for (const [name, value] of [["ink", theme.ink], ["border", theme.border], ["raised", theme.raised], ["accent", theme.accent], ["mono", theme.mono], ["leak", theme.leak], ["on", inkOn(theme.leak)]])
      root.style.setProperty(`--mwi-${name}`, value);
    root.replaceChildren(style, ...(data?.token === undefined ? piece(data) : token(card, data, theme)));
  };
  return card;
}

// A segment, or nothing yet.
function piece(data) {
  const said = element("p", "mwi-said", data?.said ?? "");
  return data?.text === undefined ? [said] : [said, element("pre", "mwi-quote", glyphsOfLines(data.text))];
}

function glyphsOfLines(text) {
  return text.split("\n").map(glyphs).join("\n");
}

function token(card, data, theme) {
  const left = element("div", "mwi-side");
  const quote = element("pre", "mwi-quote");
  quote.append(element("span", "", `…${visible(data.before)}`), element("mark", "", visible(data.token)));
  left.append(element("p", "mwi-said", data.said), quote);
  const numbers = element("div", "mwi-numbers");
  const why = element("div", "mwi-why");
  for (const number of numbersOf(data)) numbers.append(numberOf(card, number, why));
  left.append(numbers, why);
  const terms = termsOf(data);
  if (terms) left.append(element("p", "mwi-ids", terms));
  if (data.n.true === undefined) left.append(element("p", "mwi-note", UNSCORED));
  if (data.likely) left.append(...likely(data));
  const [node, query, id, position] = data.ids;
  left.append(element("p", "mwi-ids", `node ${node} · query ${query} · token id ${id} · position ${position}`));
  const right = element("div", "mwi-side");
  right.append(element("h4", "", data.times ? `Under ${data.view}` : `${data.view} does not train this token.`));
  const list = element("ul", "mwi-says");
  const words = window[WORDS] ?? {};
  for (const [name, count] of Object.entries(data.counts))
    list.append(element("li", "", (words[name] ?? `${name}: {n}`).replace("{n}", counted(count, "token"))));
  if (data.times > 1) list.append(element("li", "", `It trains ${data.times} times; these counts add up over all of them.`));
  right.append(list);
  if (data.spans.length) right.append(...sources(data, theme));
  const sides = element("div", "mwi-sides");
  sides.append(left, right);
  return [sides];
}

function numberOf(card, { name, shown, formula, inputs }, why) {
  const button = element("button", "mwi-number");
  button.append(element("span", "", name), element("strong", "", shown));
  button.type = "button";
  button.title = "What is it made of? (e)";
  button.why = () => {
    const told = element("p", "");
    told.append(element("strong", "", `${name} = ${formula}.`), ` ${inputs}`);
    return told;
  };
  button.shows = why;
  button.name = name;
  toggle(card, button, card.open.has(name));
  button.addEventListener("click", () => toggle(card, button, button.getAttribute("aria-expanded") !== "true"));
  return button;
}

function toggle(card, button, on) {
  card.open[on ? "add" : "delete"](button.name);
  button.setAttribute("aria-expanded", String(on));
  button.told?.remove();
  button.told = on ? button.why() : null;
  if (button.told) button.shows.append(button.told);
}

// The most likely tokens both ways, with bars of probability.
function likely({ likely, view, token }) {
  const table = element("div", "mwi-likely");
  for (const [name, side] of [["in the true context", likely[0]], [`under ${view}`, likely[1]]]) {
    const column = element("div", "");
    column.append(element("h5", "", `Most likely ${name}`));
    for (const [text, logprob] of side) {
      const p = Math.exp(logprob);
      const row = element("div", `mwi-guess${text === token ? " own" : ""}`);
      const bar = element("i", "");
      bar.style.width = `${Math.max(100 * p, 0.5)}%`;
      row.append(bar, element("code", "", glyphs(text) || "·"), element("span", "", p < 0.001 ? "<0.1 %" : `${(100 * p).toFixed(1)} %`));
      column.append(row);
    }
    table.append(column);
  }
  return [table];
}

// What leaks in or is missing; measured effects first, else the longest.
function sources({ spans: told, more, n }, theme) {
  const spans = told.map(([name, tokens, place, text, change]) => ({ name, tokens, place, text, change }));
  const measured = spans.some((span) => span.change !== undefined);
  const size = (span) => Math.abs(measured ? span.change ?? 0 : span.tokens);
  const most = Math.max(...spans.map(size), 1e-12);
  const colours = CLASS_COLOURS[theme.dark ? "dark" : "light"];
  const list = element("ol", "mwi-spans");
  for (const span of spans) {
    const row = element("li", "");
    const bar = element("i", "");
    bar.style.width = `${(100 * size(span)) / most}%`;
    bar.style.background = (colours[span.name] ?? [theme.border])[0];
    const facts = element("span", "mwi-facts");
    const effect = span.change === undefined ? "" : ` · ${effectOf(span.change, n.floor)}`;
    facts.append(element("strong", "", MISSING.has(span.name) ? "missing" : "leaks in"), ` ${span.name} · ${counted(span.tokens, "token")} · ${span.place}${effect}`);
    row.append(bar, facts, element("code", "", visible(span.text)));
    list.append(row);
  }
  const title = measured ? "Sources by their effect on this token" : "Sources, the longest first";
  const rest = more ? [element("p", "mwi-ids", `and ${grouped(more)} more: see the table`)] : [];
  return [element("h5", "", title), list, ...rest];
}

const STYLE = `
  .mwi { font-size: 14px; line-height: 1.45; color: var(--mwi-ink); outline: none; border-radius: 6px; }
  .mwi:focus-visible { box-shadow: 0 0 0 2px var(--mwi-accent); }
  .mwi h4, .mwi h5 { font: inherit; font-weight: 600; margin: 0 0 4px; padding: 0; } .mwi h5 { font-size: 12.5px; margin-top: 10px; }
  .mwi p { margin: 0 0 6px; }
  .mwi-sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: 14px 32px; }
  .mwi-side { min-width: 0; }
  .mwi-quote { font: 13px/1.5 var(--mwi-mono); margin: 4px 0 10px; padding: 8px 10px; border-radius: 6px; background: var(--mwi-raised);
    white-space: pre-wrap; overflow-wrap: anywhere; max-height: 150px; overflow: auto; color: inherit; }
  .mwi-quote mark { background: var(--mwi-leak); color: var(--mwi-on); border-radius: 3px; padding: 0 2px; }
  .mwi-numbers { display: flex; flex-wrap: wrap; gap: 6px; }
  .mwi-number { font: inherit; color: inherit; text-align: left; background: none; cursor: pointer; border: 1px solid var(--mwi-border);
    border-radius: 6px; padding: 3px 10px 4px; display: flex; flex-direction: column; }
  .mwi-number span { font-size: 12px; opacity: 0.75; } .mwi-number strong { font-size: 16px; font-weight: 600; font-variant-numeric: tabular-nums; }
  .mwi-number:hover, .mwi-number[aria-expanded="true"] { border-color: var(--mwi-accent); background: var(--mwi-raised); }
  .mwi-number:focus-visible { outline: none; box-shadow: 0 0 0 2px var(--mwi-accent); }
  .mwi-why { margin: 8px 0 0; font-size: 13px; } .mwi-note { margin-top: 8px !important; }
  .mwi-ids { font-size: 12px; opacity: 0.7; margin-top: 8px !important; font-variant-numeric: tabular-nums; }
  .mwi-says { margin: 0; padding-left: 18px; list-style: disc; }
  .mwi-spans { list-style: none; margin: 0; padding: 0; display: grid; grid-template-columns: minmax(0, 1fr); gap: 5px; }
  .mwi-spans li { position: relative; padding: 3px 0 3px 0; border-bottom: 1px solid var(--mwi-border); }
  .mwi-spans i { position: absolute; left: 0; bottom: -1px; height: 3px; border-radius: 2px; min-width: 2px; }
  .mwi-facts { display: block; font-size: 12.5px; } .mwi-facts strong { font-weight: 600; }
  .mwi code { font: 12.5px var(--mwi-mono); background: none; padding: 0; color: inherit; opacity: 0.82; }
  .mwi-spans code { display: block; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
  .mwi-likely { display: grid; grid-template-columns: 1fr 1fr; gap: 0 18px; }
  .mwi-guess { position: relative; display: flex; justify-content: space-between; gap: 8px; padding: 1px 4px; font-size: 12.5px; }
  .mwi-guess i { position: absolute; inset: 1px auto 1px 0; background: var(--mwi-accent); opacity: 0.22; border-radius: 2px; }
  .mwi-guess code { white-space: pre; overflow: hidden; text-overflow: ellipsis; } .mwi-guess.own { font-weight: 700; } .mwi-guess.own i { opacity: 0.5; }
`;
