// The box beside the pointer, and the sentence that a screen reader hears when keys move.

/** A new element with a class; trace text only ever enters one through `textContent`. */
export function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Shows {title, facts, words} beside `corner` (in the root's CSS pixels); hides for null. */
export function showTip({ tip, root }, told, corner) {
  tip.style.visibility = told && corner ? "visible" : "hidden";
  if (!told || !corner) return;
  tip.replaceChildren(element("b", "", told.title), element("span", "", told.facts), element("code", "", told.words));
  const { width, height } = root.getBoundingClientRect();
  const left = corner.left + 16 + tip.offsetWidth > width ? corner.left - tip.offsetWidth - 12 : corner.left + 16;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${Math.max(Math.min(corner.top + 14, height - tip.offsetHeight - 4), 4)}px`;
}

/** Where `spot` (a point in `stage`, or an event) lies in the root's CSS pixels. */
export function corner({ root }, stage, spot) {
  const outer = root.getBoundingClientRect();
  if (spot.left === undefined) return { left: spot.clientX - outer.left, top: spot.clientY - outer.top };
  const inner = stage.getBoundingClientRect();
  return { left: inner.left - outer.left + spot.left, top: inner.top - outer.top + spot.top };
}
