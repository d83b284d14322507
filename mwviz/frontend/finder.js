// The box that finds text and goes to places.

import { find, gone, nextMatch } from "./find.js";
import { button } from "./frame.js";
import { EXAMPLES, understand } from "./goto.js";
import { placeOf } from "./model.js";
import { grouped } from "./text.js";
import { element } from "./tooltip.js";

const SETTLE = 150; // milliseconds after the last letter

/** Makes the box inside `page.root`: {open, find(), goTo(), next(by), close()}. */
export function makeFinder(bench, page, acts) {
  const box = element("form", "mw-finder");
  box.hidden = true;
  box.setAttribute("role", "search");
  const field = element("input");
  field.type = "text";
  field.autocomplete = "off";
  field.spellcheck = false;
  const told = element("span", "mw-told");
  told.setAttribute("aria-live", "polite");
  box.append(field);
  const ways = element("span", "mw-tools");
  let [mode, timer, back] = ["find", 0, null];
  const next = (by) => {
    clearTimeout(timer);
    const { found } = bench;
    if (!found || found.query !== field.value) search();
    if (!bench.found?.matches.length) return;
    bench.found.at = step(bench, by);
    acts.show(bench.found.matches[bench.found.at]);
    tell();
  };
  const search = () => {
    bench.found = bench.model && field.value ? lookUp(bench.model, field.value) : null;
    acts.changed();
    tell();
  };
  const tell = () => (told.textContent = mode === "find" ? summary(bench.found) : "");
  button(ways, "‹", () => next(-1), "The match before (Shift+Enter)", "mw-icon");
  button(ways, "›", () => next(1), "The next match (Enter)", "mw-icon");
  const close = () => {
    clearTimeout(timer);
    box.hidden = true;
    bench.found = null;
    acts.changed();
    back?.focus({ preventScroll: true });
  };
  box.append(ways, told);
  button(box, "×", close, "Close (Esc)", "mw-icon");
  const open = (wanted) => {
    if (box.hidden) back = page.root.getRootNode().activeElement ?? null;
    mode = wanted;
    box.hidden = false;
    box.dataset.mode = mode;
    ways.hidden = mode !== "find";
    field.placeholder = mode === "find" ? "Find in everything, evicted text too" : EXAMPLES;
    field.setAttribute("aria-label", mode === "find" ? "Find text" : "Go to");
    field.focus({ preventScroll: true });
    field.select();
    tell();
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    if (mode === "find") timer = setTimeout(search, SETTLE);
    else told.textContent = "";
  });
  box.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") close();
    if (event.key !== "Enter" || event.target !== field) return;
    event.preventDefault();
    if (mode === "find") return next(event.shiftKey ? -1 : 1);
    const found = bench.model ? understand(field.value, bench.model) : { error: "" };
    if (found.error) return (told.textContent = found.error);
    close();
    acts.went(found);
  });
  page.root.append(box);
  return {
    get open() {
      return !box.hidden;
    },
    close,
    find: () => open("find"),
    goTo: () => open("go"),
  };
}

// From the match that is shown, else from what is selected or pointed at.
function step({ found, model, hover, selected }, by) {
  if (found.at >= 0) return (found.at + by + found.matches.length) % found.matches.length;
  return Math.max(nextMatch(found.matches, placeOf(model, hover ?? selected) ?? -1, by), 0);
}

function lookUp(model, query) {
  const { matches, more } = find(model.tree, query);
  const marked = new Uint8Array(model.keys);
  for (const { ranks } of matches) for (const rank of ranks) marked[rank] = 1;
  const left = gone(model.tree, matches);
  return { query, matches, more, marked, gone: left, left: left.filter(Boolean).length, at: -1 };
}

function summary(found) {
  if (!found) return "";
  const { matches, more, at, left, gone: flags } = found;
  if (!matches.length) return "Found nowhere, in no context of any call.";
  const many = `${grouped(matches.length)}${more ? "+" : ""} found, ${left ? grouped(left) : "none"} of them evicted by the end`;
  return at < 0 ? many : `${grouped(at + 1)} of ${many}${flags[at] ? " · this one left" : ""}`;
}
