// Decodes the binary of mwviz/payload.py into typed arrays; derives depth, length, exit and kinds.

import { nodeKinds } from "./births.js";
import { lastAtMost } from "./sorted.js";

export const VERSION = 6;
const MAGIC = "MWVZ";
const START = 20; // of the header, behind the id
const LONG = 255;
const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array };

/** The tree in `bytes` (a Uint8Array at any offset); throws an Error that says what is wrong. */
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < START || ascii(bytes.subarray(0, 4)) !== MAGIC) {
    throw new Error("not an mwviz payload");
  }
  const version = view.getUint32(4, true);
  if (version !== VERSION) {
    throw new Error(`payload version ${version}, this page reads ${VERSION}: reload the page`);
  }
  const size = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(START, START + size)));
  const body = bytes.slice(START + size);
  const read = (name) => {
    const [type, offset, count] = header.sections[name];
    const plain = type === "u8" || type === "u16";
    return plain ? new TYPES[type](body.buffer, offset, count) : fromDifferences(body, offset, new TYPES[type](count));
  };
  const segments = derive(header.nodes, {
    start: read("segment_start"),
    parent: read("segment_parent"),
    firstCall: read("segment_first_call"),
  });
  const calls = { prompt: read("call_prompt"), tip: read("call_tip"), lineage: read("call_lineage"), cache: read("call_cache") };
  const ranks = { start: read("rank_start"), value: read("rank_value") };
  const rowsOf = (view) => (view.exact ? null : readRows(read, view.rows ?? view.name));
  return {
    nodes: header.nodes,
    lineages: header.lineages,
    kinds: header.kinds,
    cache: header.cache,
    segments,
    calls,
    ranks,
    runs: nodeKinds({ nodes: header.nodes, segments, ranks }, { start: read("born_start"), kind: read("born_kind") }),
    roles: { start: read("role_start"), code: read("role"), letters: header.roles },
    junctions: readJunctions(read, header.junction_kinds),
    targets: countTargets(segments, calls),
    views: header.views.map((view) => ({ ...view, rows: rowsOf(view) })),
    id: Array.from(bytes.subarray(12, START), (byte) => byte.toString(16).padStart(2, "0")).join(""),
    comparisons: header.comparisons,
    known: new Set(header.known),
    numbers: new Map(Object.entries(header.numbers).map(([name, scale]) => [name, { ...scale, codes: read(name) }])),
    ...textOf(read("token"), {
      ids: read("vocabulary_id"),
      lengths: read("vocabulary_length"),
      longLengths: read("long_length"),
      text: read("vocabulary_text"),
    }),
  };
}

// Numbers as mwviz/packing.py writes them: zigzag differences in groups of seven bits.
function fromDifferences(bytes, offset, numbers) {
  let [at, value] = [offset, 0];
  for (let i = 0; i < numbers.length; i++) {
    let [code, weight, byte] = [0, 1, 0];
    do {
      byte = bytes[at++];
      code += (byte & 127) * weight;
      weight *= 128;
    } while (byte > 127);
    value += code % 2 ? -(code + 1) / 2 : code / 2;
    numbers[i] = value;
  }
  return numbers;
}

function readJunctions(read, kinds) {
  const [call, kind, depth] = ["call", "kind", "depth"].map((name) => read(`junction_${name}`));
  const evicted = read("junction_evicted");
  return Array.from(call, (at, i) => {
    const [name, evicts] = kinds[kind[i]];
    return { call: at, kind: name, evicts, depth: depth[i], evicted: evicted[i] };
  });
}

// Each row: runs of nodes (with position ids and until when they are seen) and runs of edges.
function readRows(read, view) {
  const part = (name) => read(`${view}:${name}`);
  const [node, length, position, until] = ["node", "length", "position", "until"].map((n) => part(`run_${n}`));
  const [query, target, count] = ["query", "target", "count"].map((n) => part(`edge_${n}`));
  const edges = part("row_edges");
  let [run, edge] = [0, 0];
  return Array.from(part("row_runs"), (runs, row) => {
    const a = run;
    const b = edge;
    run += runs;
    edge += edges[row];
    const cut = (array) => array.subarray(a, run);
    return {
      runs: { node: cut(node), length: cut(length), position: cut(position), until: cut(until) },
      edges: [query, target, count].map((array) => array.subarray(b, edge)),
    };
  });
}

// Targets are ordered by (call, offset); `first[c]` is the first one of call c, the last entry M.
function countTargets(segments, calls) {
  const first = new Uint32Array(calls.tip.length + 1);
  calls.tip.forEach((tip, call) => {
    const last = tip < 0 ? -1 : lastAtMost(segments.start, tip);
    const size = last < 0 ? 0 : segments.depth[last] + tip - segments.start[last] + 1;
    first[call + 1] = first[call] + Math.max(size - calls.prompt[call], 0);
  });
  return { first, count: first[first.length - 1] };
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

// The text of every node one after another, and where each one's begins.
function textOf(token, vocabulary) {
  const { lengths, longLengths, text } = vocabulary;
  const starts = new Uint32Array(lengths.length + 1);
  for (let i = 0, long = 0; i < lengths.length; i++) starts[i + 1] = starts[i] + (lengths[i] === LONG ? longLengths[long++] : lengths[i]);
  const offsets = new Uint32Array(token.length + 1);
  for (let i = 0; i < token.length; i++) offsets[i + 1] = offsets[i] + starts[token[i] + 1] - starts[token[i]];
  const raw = new Uint8Array(offsets[token.length]);
  for (let i = 0; i < token.length; i++) {
    for (let from = starts[token[i]], to = offsets[i]; from < starts[token[i] + 1]; from++, to++) raw[to] = text[from];
  }
  const decoder = new TextDecoder();
  return {
    text: (from, to) => decoder.decode(raw.subarray(offsets[from], offsets[to])),
    idOf: (node) => vocabulary.ids[token[node]],
    words: { of: token, count: vocabulary.ids.length },
    bytes: { offsets, raw },
  };
}
