// How Python reaches a workbench without sending its payload again: a second, tiny component leaves
// its data here. It lies in the page's window: code that replaces this one finds it there.

const EVENT = "mwviz-command";
const BOX = Symbol.for("mwviz.command");
const PAUSE = 8_000; // milliseconds until what Python has not answered is said again: longer than a page takes

/**
 * Leaves {view?, address?, copy?, selection?, sight?, leads?, serial?, awaited?} for the workbench, whether
 * or not it is there yet. `copy`: how often the page was told to copy an address. `leads`: whether the
 * page scrolls to the selection. `teller`: what leaves it.
 */
export function leaveCommand(command, teller) {
  const box = (window[BOX] ??= { done: new Set(), tellers: new Set() });
  box.tellers.add(teller);
  if (command.view !== undefined) box.view = command.view;
  if (command.address !== undefined) box.address = command.address;
  box.awaited = command.awaited === true;
  box.copying = command.copy > box.copy;
  box.copy = command.copy;
  if (command.serial !== undefined) box.serial = command.serial;
  if (command.serial !== undefined && !box.done.has(command.serial)) {
    box.done.add(command.serial);
    Object.assign(box, { selection: command.selection, sight: command.sight, leads: command.leads });
  }
  window.dispatchEvent(new Event(EVENT));
}

/**
 * Ends what `teller` leaves. Once nobody tells anything, Python waits for the picture: a session that is
 * new, while the page keeps the workbench of the one before, as after a restart of the server.
 */
export function endCommands(teller) {
  const box = window[BOX];
  if (!box?.tellers.delete(teller) || box.tellers.size) return;
  box.awaited = true;
  window.dispatchEvent(new Event(EVENT));
}

/**
 * Has `say` called soon, and again after ever longer pauses until Python tells something or `say` gives
 * false: what was said to a session is lost where that ended before it answered.
 */
export function sayUntilTold(say, wait = 0) {
  setTimeout(() => {
    if (wait && window[BOX]?.tellers.size) return;
    if (say()) sayUntilTold(say, wait ? 2 * wait : PAUSE);
  }, wait);
}

/** Calls `obey` with what was left and with all that follows; gives a function that ends it. */
export function listenForCommands(obey) {
  const take = () => {
    const box = window[BOX];
    if (!box) return;
    obey({ ...box });
    Object.assign(box, { selection: undefined, sight: undefined, leads: undefined, awaited: false, copying: false });
  };
  window.addEventListener(EVENT, take);
  take();
  return () => window.removeEventListener(EVENT, take);
}
