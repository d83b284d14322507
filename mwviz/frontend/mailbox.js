// How Python reaches a workbench without sending its payload again: a second, tiny component leaves
// its data here. Components are loaded as separate modules, so the page's window is what they share.

const EVENT = "mwviz-command";
const BOX = Symbol.for("mwviz.command");

/** Leaves {view?, trace?, selection?, serial?, awaited?} for the workbench, whether or not it is there yet. */
export function leaveCommand(command) {
  const box = (window[BOX] ??= { view: undefined, trace: undefined, selection: undefined, done: new Set() });
  if (command.view !== undefined) box.view = command.view;
  if (command.trace !== undefined) box.trace = command.trace;
  box.awaited = command.awaited === true;
  if (command.selection && !box.done.has(command.serial)) {
    box.done.add(command.serial);
    box.selection = command.selection;
  }
  window.dispatchEvent(new Event(EVENT));
}

/** Calls `obey` with what was left and with all that follows; gives a function that ends it. */
export function listenForCommands(obey) {
  const take = () => {
    const box = window[BOX];
    if (!box) return;
    const { view, trace, selection, awaited } = box;
    Object.assign(box, { selection: undefined, awaited: false });
    obey({ view, trace, selection, awaited });
  };
  window.addEventListener(EVENT, take);
  take();
  return () => window.removeEventListener(EVENT, take);
}
