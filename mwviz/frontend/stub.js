// Entry of every other Streamlit component of ours. It travels with each message, so it is short: it
// leaves what it is given to the code, or where that will look when it comes.
export default (it, box = (window.mwviz ??= [])) =>
  (box.push ? new Promise((done) => box.push([it, done])) : box(it));
