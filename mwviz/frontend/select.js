// A native select, said in words to whoever cannot see it.

import { element } from "./tooltip.js";

/** A select of [words, value] choices, called `title`; `act` gets the value that is picked. */
export function select(title, choices, act) {
  const made = element("select");
  made.title = title;
  made.setAttribute("aria-label", title);
  for (const [words, value] of choices) {
    const one = element("option", "", words);
    one.value = value;
    made.append(one);
  }
  made.addEventListener("change", () => act(made.value));
  return made;
}
