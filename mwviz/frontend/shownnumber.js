// The number that colours text and strip, between the workbench and its picker in the page's bar: told
// by the one, asked for by the other. Both lie in the page's window, so no message is sent.

const TOLD = "mwviz-number-told";
const ASKED = "mwviz-number-asked";
const NOW = Symbol.for("mwviz.number");

/** Says what is shown: {kind, known} (`known`: all that is known of the rollout). */
export function tellNumber(now) {
  window[NOW] = now;
  window.dispatchEvent(new Event(TOLD));
}

/** Calls `show({kind, known})` with what is shown, once that is told; gives what ends it. */
export function listenForTold(show) {
  const look = () => window[NOW] && show(window[NOW]);
  window.addEventListener(TOLD, look);
  look();
  return () => window.removeEventListener(TOLD, look);
}

/** Asks for another number. */
export function askForNumber(kind) {
  window.dispatchEvent(new CustomEvent(ASKED, { detail: kind }));
}

/** Calls `choose(kind)` whenever another number is asked for; gives what ends it. */
export function listenForAsked(choose) {
  const take = ({ detail }) => choose(detail);
  window.addEventListener(ASKED, take);
  return () => window.removeEventListener(ASKED, take);
}
