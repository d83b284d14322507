// Decodes the binary of mwviz/payload.py into typed arrays; derives depth, length and exit.

export const VERSION = 1;
const MAGIC = "MWVZ";
const LONG = 255;
const TYPES = { u8: Uint8Array, u32: Uint32Array, i32: Int32Array };

/** The tree in `bytes` (a Uint8Array at any offset); throws an Error that says what is wrong. */
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < 12 || ascii(bytes.subarray(0, 4)) !== MAGIC) {
    throw new Error("not an mwviz payload");
  }
  const version = view.getUint32(4, true);
  if (version !== VERSION) {
    throw new Error(`payload version ${version}, this page reads ${VERSION}: reload the page`);
  }
  const size = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(12, 12 + size)));
  const body = bytes.slice(12 + size);
  const read = (name) => {
    const [type, offset, count] = header.sections[name];
    return new TYPES[type](body.buffer, offset, count);
  };
  const segments = derive(header.nodes, {
    start: read("segment_start"),
    parent: read("segment_parent"),
    firstCall: read("segment_first_call"),
  });
  return {
    nodes: header.nodes,
    lineages: header.lineages,
    kinds: header.kinds,
    segments,
    calls: {
      prompt: read("call_prompt"),
      tip: read("call_tip"),
      lineage: read("call_lineage"),
    },
    runs: { start: read("run_start"), kind: read("run_kind") },
    text: textReader(read("token_length"), read("long_length"), read("text")),
  };
}

/** Index of the last entry of ascending `starts` that is at most `value`; -1 if there is none. */
export function lastAtMost(starts, value) {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function ascii(bytes) {
  return String.fromCharCode(...bytes);
}

// A child hangs at the end of its parent, and parents come first: one pass down, one pass up.
function derive(nodes, { start, parent, firstCall }) {
  const count = start.length;
  const length = new Uint32Array(count);
  const depth = new Uint32Array(count);
  const exit = new Uint32Array(count);
  for (let s = 0; s < count; s++) {
    length[s] = (s + 1 < count ? start[s + 1] : nodes) - start[s];
    depth[s] = parent[s] < 0 ? 0 : depth[parent[s]] + length[parent[s]];
    exit[s] = start[s] + length[s];
  }
  for (let s = count - 1; s >= 0; s--) {
    if (parent[s] >= 0) exit[parent[s]] = Math.max(exit[parent[s]], exit[s]);
  }
  return { start, parent, firstCall, length, depth, exit };
}

function textReader(lengths, longLengths, text) {
  const offsets = new Uint32Array(lengths.length + 1);
  let long = 0;
  for (let i = 0; i < lengths.length; i++) {
    const size = lengths[i] === LONG ? longLengths[long++] : lengths[i];
    offsets[i + 1] = offsets[i] + size;
  }
  const decoder = new TextDecoder();
  return (from, to) => decoder.decode(text.subarray(offsets[from], offsets[to]));
}
