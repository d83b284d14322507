// What was seen of a payload, for the time when its page is shown again: Streamlit unmounts a
// component when the user changes the page.

const REMEMBERED = 8; // payloads

const memory = new Map();

/** Keeps `state` for these bytes. */
export function remember(bytes, state) {
  const name = fingerprint(bytes);
  memory.delete(name);
  memory.set(name, state);
  if (memory.size > REMEMBERED) memory.delete(memory.keys().next().value);
}

/** What was kept for these bytes, or undefined. */
export function recall(bytes) {
  return memory.get(fingerprint(bytes));
}

/** Whether two payloads are the same, byte for byte. */
export function same(a, b) {
  return a === b || (a && b && a.length === b.length && a.every((byte, i) => byte === b[i]));
}

// FNV-1a over all bytes, and their number.
function fingerprint(bytes) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i], 0x01000193);
  return `${bytes.length}-${hash >>> 0}`;
}
