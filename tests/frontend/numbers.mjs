// Reads {payload, numbers, scored, view, kinds} (bytes as base64) from standard input; prints by kind every
// target's value and level, or why the number is not known.

import { readFileSync } from "node:fs";

import { modelOf } from "../../mwviz/frontend/model.js";
import { decode } from "../../mwviz/frontend/payload.js";

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const { payload, numbers, scored, view, kinds } = JSON.parse(readFileSync(0, "utf8"));
const model = modelOf(decode(bytes(payload)));
const decoded = (told) => (told.codes ? { ...told, codes: bytes(told.codes) } : told);
model.supply(numbers.map(decoded), Object.entries(scored).map(([name, told]) => [name, decoded(told)]));
const answer = {};
for (const kind of kinds) {
  const { metric, missing } = model.under(view, kind);
  const targets = Array.from({ length: model.targets }, (_, target) => target);
  answer[kind] = missing ? { why: missing.why } : { values: targets.map(metric.value), levels: targets.map(metric.level), floor: metric.floor, unit: metric.unit };
}
process.stdout.write(JSON.stringify(answer));
