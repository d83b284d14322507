// How numbers a token reach a workbench that were asked for: they lie in the page's window, where code
// that replaces this one finds them. Those of scored views stay there as long as the payload does.

const NUMBERS = "mwviz-numbers";
const HELD = Symbol.for("mwviz.numbers");
const SETTLE = 60; // milliseconds in which a later wish replaces an earlier one
const PAUSE = 8_000; // milliseconds until a question without an answer is asked again: longer than one takes

/**
 * Leaves numbers a token for the workbench. `show`: {kind, serial}, one to colour by from now on. `of`: the
 * id of the payload that `scored` (by name) belongs to. `ask` has the server send more; one a component.
 */
export function leaveNumbers({ numbers, show, of, scored }, ask) {
  const held = (window[HELD] ??= { done: new Set() });
  if (held.of !== of) Object.assign(held, { of, scored: new Map(), asked: "" });
  for (const [name, told] of Object.entries(scored)) held.scored.set(name, told);
  if (held.ask !== ask) Object.assign(held, { ask, asked: "" });
  held.numbers = numbers;
  held.show = show && !held.done.has(show.serial) ? show.kind : undefined;
  if (show) held.done.add(show.serial);
  window.dispatchEvent(new Event(NUMBERS));
}

/** Ends what `ask` can be asked for. */
export function endNumbers(ask) {
  const held = window[HELD];
  if (held.ask !== ask) return;
  held.ask = null;
  dropQuestion(held);
}

/** Has the server send what of the payload `of` is lacking, once for the same names. */
export function askForNumbers(of, names) {
  const held = window[HELD];
  if (!held?.ask) return;
  const wish = [of, ...names].join(" ");
  if (held.waits === wish) return; // a picture drawn meanwhile puts nothing off
  clearTimeout(held.timer);
  held.waits = null;
  if (!names.length) return dropQuestion(held);
  if (held.asked === wish) return;
  held.waits = wish;
  held.timer = setTimeout(() => {
    Object.assign(held, { asked: wish, waits: null });
    askUntilAnswered(held, wish, { of, names }, PAUSE);
  }, SETTLE);
}

// Nobody waits for an answer any more: nothing is asked, or asked again.
function dropQuestion(held) {
  clearTimeout(held.timer);
  clearTimeout(held.again);
  Object.assign(held, { asked: "", waits: null });
}

// Asks again after ever longer pauses while anything is lacking and nothing else was asked for: an answer
// is lost where the session or the connection ended before it came.
function askUntilAnswered(held, wish, question, wait) {
  held.ask?.(question);
  clearTimeout(held.again);
  held.again = setTimeout(() => {
    const lacking = held.asked === wish && question.names.some((name) => !held.scored.has(name));
    if (lacking) askUntilAnswered(held, wish, question, 2 * wait);
  }, wait);
}

/** What of the scored views lies here for the payload `of`: [name, {codes, floor, scale}] each. */
export function scoredOf(of) {
  const held = window[HELD];
  return held?.of === of ? [...held.scored] : [];
}

/** Calls `take(numbers, kind)` with what was left and with all that follows; gives what ends it. */
export function listenForNumbers(take) {
  const look = () => {
    const held = window[HELD];
    if (!held?.numbers) return;
    take(held.numbers, held.show);
    held.show = undefined;
  };
  window.addEventListener(NUMBERS, look);
  look();
  return () => window.removeEventListener(NUMBERS, look);
}
