// Entry of the Streamlit component `mwviz.code`, whose data is the code of all others: bytes are read
// faster than text. It starts what was mounted before it came (see stub.js).

export default function ({ data }) {
  const waiting = window.mwviz ?? [];
  if (!Array.isArray(waiting)) return;
  const parts = new Function(new TextDecoder().decode(data))().PARTS;
  window.mwviz = (given) => parts[given.name.split(".").pop()](given);
  for (const [given, done] of waiting) done(window.mwviz(given));
}
