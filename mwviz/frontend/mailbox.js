// How Python reaches a workbench without sending its payload again: a second, tiny component leaves
// its data here. Components are loaded as separate modules, so the page's window is what they share.

const EVENT = "mwviz-command";
const BOX = Symbol.for("mwviz.command");

/**
 * Leaves {view?, address?, copy?, selection?, sight?, serial?, awaited?} for the workbench, whether or
 * not it is there yet. `copy`: how often the page was told to copy an address.
 */
export function leaveCommand(command) {
  const box = (window[BOX] ??= { done: new Set() });
  if (command.view !== undefined) box.view = command.view;
  if (command.address !== undefined) box.address = command.address;
  box.awaited = command.awaited === true;
  box.copying = command.copy > box.copy;
  box.copy = command.copy;
  if (command.serial !== undefined && !box.done.has(command.serial)) {
    box.done.add(command.serial);
    Object.assign(box, { selection: command.selection, sight: command.sight });
  }
  window.dispatchEvent(new Event(EVENT));
}

/** Calls `obey` with what was left and with all that follows; gives a function that ends it. */
export function listenForCommands(obey) {
  const take = () => {
    const box = window[BOX];
    if (!box) return;
    obey({ ...box });
    Object.assign(box, { selection: undefined, sight: undefined, awaited: false, copying: false });
  };
  window.addEventListener(EVENT, take);
  take();
  return () => window.removeEventListener(EVENT, take);
}
