// How numbers a token that were asked for reach a workbench: they lie in the page's window, where code
// that replaces this one finds them.

const NUMBERS = "mwviz-numbers";
const HELD = Symbol.for("mwviz.numbers");

/** Leaves numbers a token for the workbench; `show`: {kind, serial}, one to colour by from now on. */
export function leaveNumbers(numbers, show) {
  const held = (window[HELD] ??= { done: new Set() });
  held.numbers = numbers;
  held.show = show && !held.done.has(show.serial) ? show.kind : undefined;
  if (show) held.done.add(show.serial);
  window.dispatchEvent(new Event(NUMBERS));
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
