// Entry of the Streamlit component `mwviz.code`, whose data is the code of all others: bytes are read
// faster than text. It starts what was mounted before it came (see stub.js), each on its own. A page that
// is open while the server is upgraded gets other code: what the earlier code mounted ends as soon as it
// is to be shown again.

export default function ({ data }) {
  const code = new TextDecoder().decode(data);
  const before = window.mwviz ?? [];
  if (before.code === code) return;
  const parts = new Function(code)().PARTS;
  const mounted = before.mounted ?? new WeakMap();
  const start = (given) => {
    const place = given.parentElement;
    const earlier = mounted.get(place);
    if (earlier && earlier.code !== code) earlier.end?.();
    const end = parts[given.name.split(".").pop()](given);
    mounted.set(place, { code, end });
    return end;
  };
  window.mwviz = Object.assign(start, { code, mounted });
  if (!Array.isArray(before)) return;
  for (const [given, done] of before) done(new Promise((started) => started(start(given))));
}
