// The Streamlit component `mwviz.numbers`: numbers a token that were asked for, for the
// workbench to colour by. They travel apart from the payload, which stays as it is.

import { leaveNumbers } from "./fetched.js";

export function numbers({ data }) {
  if (data) leaveNumbers(data.numbers.map((told) => (told.codes ? { ...told, codes: bytesOf(told.codes) } : told)), data.show);
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
