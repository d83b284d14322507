// The Streamlit component `mwviz.numbers`: numbers a token for the workbench to colour by. They travel
// apart from the payload, which stays as it is; up goes what else of them is to be shown.

import { endNumbers, leaveNumbers } from "./fetched.js";

const askers = new WeakMap();

export function numbers({ data, parentElement, setTriggerValue }) {
  const asker = askers.get(parentElement) ?? { ask: (wish) => asker.send("wanted", wish) };
  asker.send = setTriggerValue;
  askers.set(parentElement, asker);
  if (data) leaveNumbers({ ...data, numbers: data.numbers.map(decoded), scored: mapped(data.scored) }, asker.ask);
  return () => endNumbers(asker.ask);
}

const mapped = (scored) => Object.fromEntries(Object.entries(scored).map(([name, told]) => [name, decoded(told)]));

function decoded(told) {
  return told.codes ? { ...told, codes: Uint8Array.from(atob(told.codes), (letter) => letter.charCodeAt(0)) } : told;
}
