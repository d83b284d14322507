// The box beside the pointer, and the sentence that a screen reader hears when keys move.

import { projection } from "./draw.js";
import { grouped, visible } from "./text.js";

/** A new element with a class; trace text only ever enters one through `textContent`. */
export function element(tag, name) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  return made;
}

/** Shows what is under the pointer at `point`, or says it where the keys are (`point` null). */
export function tell(page, state, point) {
  const { tip, said } = page;
  tip.style.visibility = state.hover ? "visible" : "hidden";
  if (!state.hover) return;
  const [title, facts, words] = describe(state, state.hover);
  const [head, body, code] = [element("b"), element("span"), element("code")];
  [head.textContent, body.textContent, code.textContent] = [title, facts, words];
  tip.replaceChildren(head, body, code);
  if (!point) said.textContent = `${title}: ${facts}`;
  const corner = point ?? centre(state);
  const { width, height } = state.size;
  const left = corner.left + 16 + tip.offsetWidth > width ? corner.left - tip.offsetWidth - 12 : corner.left + 16;
  const top = Math.min(corner.top + 14, height - tip.offsetHeight - 4);
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${Math.max(top, 4)}px`;
}

function describe({ tree, layout }, { call, segment, span }) {
  const { segments, calls } = tree;
  const depth = segments.depth[segment];
  const length = segments.length[segment];
  const gone = layout.cuts.some((cut) => cut.lane === span.lane && cut.call === span.to);
  const facts =
    `${grouped(length)} tokens at depth ${grouped(depth)}–${grouped(depth + length - 1)}, in calls ` +
    `${span.from}–${span.to - 1}${gone ? `, evicted before call ${span.to}` : ""}`;
  const words = visible(tree.text(segments.start[segment], segments.start[segment] + Math.min(length, 16)));
  return [`Call ${call} of ${calls.tip.length}, segment ${segment}`, facts, words.slice(0, 120)];
}

function centre(state) {
  const place = projection(state.view, state.size);
  const { lane, call, segment } = state.hover;
  const { depth, length } = state.tree.segments;
  const middle = state.layout.lanes[lane].base + depth[segment] + length[segment] / 2;
  return { left: place.px(call + 0.5), top: place.py(middle) };
}
