// Entry of every Streamlit component of ours. Their code comes once, as the data of the component
// `mwviz.code`, ahead of what they show; bytes are read faster than text and need no further request.

const waiting = [];
let parts = null;

export default function (given) {
  const part = given.name.split(".").pop();
  if (part === "code") return take(given.data);
  return parts ? parts[part](given) : new Promise((done) => waiting.push(() => done(parts[part](given))));
}

function take(code) {
  parts ??= new Function(new TextDecoder().decode(code))().PARTS;
  for (const start of waiting.splice(0)) start();
}
