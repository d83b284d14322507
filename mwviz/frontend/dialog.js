// A box over the workbench: the keys, a table, or what the numbers mean. One at a time.

import { tableCsv } from "./copy.js";
import { button } from "./frame.js";
import { grouped } from "./text.js";
import { element } from "./tooltip.js";

const PAGE = 20; // rows of a table that are shown at once

/**
 * Makes the box inside `root`: {open, keys(list), table(make, choose), explain(list), close(), refresh()};
 * `make` gives the table, again on `refresh`, once more is known.
 */
export function makeDialog(root) {
  const box = element("div", "mw-dialog");
  box.hidden = true;
  box.setAttribute("role", "dialog");
  root.append(box);
  let [back, remake] = [null, null];
  const close = () => {
    box.hidden = true;
    remake = null;
    box.replaceChildren();
    back?.focus({ preventScroll: true });
  };
  const open = (name, title, ...content) => {
    remake = null;
    back = root.getRootNode().activeElement ?? document.activeElement;
    box.className = `mw-dialog ${name}`;
    box.setAttribute("aria-label", title);
    const head = element("div", "mw-head");
    head.append(element("h4", "", title));
    const tools = element("span", "mw-tools");
    head.append(tools);
    box.replaceChildren(head, ...content);
    box.hidden = false; // what is hidden takes no focus
    button(tools, "close", close, "Close (Esc)").focus({ preventScroll: true });
    return tools;
  };
  return {
    get open() {
      return !box.hidden;
    },
    close,
    keys: (list) => open("keys", "Keys", pairs(list)),
    explain: (list) => open("explain", "What these numbers are", explained(list)),
    table: (make, choose) => (remake = table(open, make, choose)),
    refresh: () => remake?.(),
  };
}

function pairs(list) {
  const made = element("dl");
  for (const [keys, words] of list) made.append(element("dt", "", keys), element("dd", "", words));
  return made;
}

function explained(list) {
  const made = element("div");
  for (const { name, says, formula, inputs } of list) {
    made.append(element("h5", "", name), element("p", "", says), element("code", "", formula), element("p", "mw-inputs", inputs));
  }
  return made;
}

function table(open, make, choose) {
  let told = make();
  const sheet = element("table");
  const place = element("span", "mw-place");
  let from = 0;
  const turn = (by) => {
    from = Math.min(Math.max(from + by, 0), Math.max(told.count - 1, 0));
    from -= from % PAGE;
    const to = Math.min(from + PAGE, told.count);
    place.textContent = told.count ? `${grouped(from + 1)}–${grouped(to)} of ${grouped(told.count)}` : "no rows";
    sheet.replaceChildren(headOf(told), bodyOf(told, from, to, choose));
  };
  const wrap = element("div", "mw-scroll");
  wrap.append(sheet);
  const tools = open("table", told.title, wrap);
  const ways = [["«", -Infinity, "First rows"], ["‹", -PAGE, "Rows before"], ["›", PAGE, "Next rows"], ["»", Infinity, "Last rows"]];
  const made = element("span", "mw-tools");
  made.append(place);
  for (const [words, by, title] of ways) button(made, words, () => turn(by), title, "mw-icon");
  const saving = button(made, "CSV", () => save(tableCsv(told), "mwviz-table.csv", "text/csv"), "Save all rows");
  tools.prepend(made);
  const remake = () => {
    told = make();
    saving.disabled = Boolean(told.awaited);
    turn(0);
  };
  remake();
  return remake;
}

function headOf({ columns, count, row }) {
  const [head, line] = [element("thead"), element("tr")];
  const seen = Array.from({ length: Math.min(count, PAGE) }, (_, i) => row(i));
  for (const [i, name] of columns.entries()) {
    const cell = element("th", seen.some((cells) => typeof cells[i] === "number") ? "number" : "", name);
    cell.scope = "col";
    line.append(cell);
  }
  head.append(line);
  return head;
}

function bodyOf({ row, mark }, from, to, choose) {
  const body = element("tbody");
  for (let i = from; i < to; i++) {
    const line = element("tr");
    line.tabIndex = 0;
    for (const value of row(i)) line.append(element("td", typeof value === "number" ? "number" : "", typeof value === "number" && Math.abs(value) >= 1000 ? grouped(value) : String(value)));
    line.addEventListener("click", () => choose(mark(i)));
    line.addEventListener("keydown", (event) => event.key === "Enter" && choose(mark(i)));
    body.append(line);
  }
  return body;
}

/** Hands the reader a file, made here. */
export function save(content, name, type) {
  const link = element("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
