// What the mask's rows and columns are: sampled tokens by all text in time order, or the places of a
// view's rows in packed order. One shape for both, so that the pane draws either. Pure.

import { highestOf } from "./highest.js";
import { placeOf } from "./model.js";
import { packedOrder } from "./packedorder.js";

export const ORDERS = ["time", "packed"];

/**
 * The axes of a view in an order: `judged` (classes by row and column), `rows` and `columns` (how
 * many), `where(mark)` ({x, y}, null each where the mark has none), `at(y, x)` (a part of a
 * selection), `rowTicks` and `columnTicks` ({at, call}, ascending), `leaks(from, to)` and
 * `level(from, to)` (the highest of those columns and rows).
 */
export function maskAxes(model, under, order) {
  return order === "packed" ? packedAxes(model, under) : timeAxes(model, under);
}

function timeAxes(model, under) {
  const { first } = model.tree.targets;
  const rowTicks = [];
  for (let call = 0; call + 1 < first.length; call++) if (first[call] < first[call + 1]) rowTicks.push({ at: first[call], call });
  return {
    order: "time",
    judged: under.judged,
    rows: model.targets,
    columns: model.keys,
    rowTicks,
    columnTicks: model.births.map(({ rank, call }) => ({ at: rank, call })),
    words: "text, by the call that wrote it →",
    where: (mark) => ({ x: placeOf(model, mark), y: mark.target ?? null }),
    band: (mark) => [first[mark.call], first[mark.call + 1]],
    at: (y, x) => ({ target: y, key: x }),
    leaks: highestOf(model.keys, (x) => under.leaks.byKey[x]),
    level: highestOf(model.targets, (y) => Math.abs(under.metric.level(y))),
  };
}

function packedAxes(model, under) {
  const packed = packedOrder(model.tree, under.view, under.judged);
  const ticks = [];
  for (const at of packed.starts) {
    const call = packed.callAt(at);
    if (ticks[ticks.length - 1]?.call !== call) ticks.push({ at, call });
  }
  const where = (mark) => {
    const y = mark.target === null || mark.target === undefined ? null : packed.queryOf(mark.target);
    const rank = placeOf(model, mark);
    const x = rank === null ? null : packed.placeOf(rank, y ?? -1);
    return { x: x === -1 ? null : x, y: y === -1 ? null : y };
  };
  return {
    order: "packed",
    judged: packed.judged,
    rows: packed.size,
    columns: packed.size,
    rowTicks: ticks,
    columnTicks: ticks,
    words: "places of the row, by the call that wrote them →",
    where,
    band: () => null,
    at(y, x) {
      const [target, key] = [packed.targetAt(y), packed.rankAt(x)];
      return target >= 0 ? { target, key } : { call: model.keyCall(key), key };
    },
    leaks: highestOf(packed.size, (x) => under.leaks.byKey[packed.rankAt(x)]),
    level: highestOf(packed.size, (y) => (packed.targetAt(y) < 0 ? 0 : Math.abs(under.metric.level(packed.targetAt(y))))),
  };
}
