// The specializations of a kernel: a table that sorts, scrolls inside itself, and of which rows are chosen and checked.

import { button, closest, element, focusable, rove } from "../shared/dom";
import { MISSING } from "../shared/generated";
import { clean, count, counted, exact } from "../shared/text";
import {
  bytes, cacheFile, cacheName, fullSignature, known, lcs, reveal, signature, spills, time, useText, uses,
} from "./elements";
import type { Kernel, Specialization } from "./wire";

const ORIGINS: Record<string, string> = { compiled: "compiled", disk: "from disk", before: "before" };
const ORIGIN_TITLES: Record<string, string> = {
  compiled: "compiled while it was recorded", disk: "loaded from the disk cache",
  before: "it was compiled before recording began",
};
// So many rows are in the page unless all are asked for; and so many of them before the first paint.
const FIRST = 300;
const AT_ONCE = 40;
const AFTER_PAINT_MS = 60;

type Of<Value> = (each: Specialization) => Value;

const COLUMNS: [
  label: string, meaning: string, text: Of<string>, title: Of<string>, order: Of<string | number | null>,
][] = [
  ["#", "In order of appearance", (each) => String(each.number), () => "", (each) => each.number],
  ["Arguments", "Types by argument name", signature, fullSignature, signature],
  ["Launches", "Launches that ran it", (each) => count(each.launches), () => "", (each) => each.launches],
  ["Compile", "Time of its compiles and loads here", (each) => time(each.compile_ns),
    (each) => (each.compile_ns === null ? "compiled before recording began" : exact(each.compile_ns)),
    (each) => each.compile_ns],
  ["Origin", "Where it came from", (each) => ORIGINS[each.origin] ?? clean(each.origin),
    (each) => ORIGIN_TITLES[each.origin] ?? "", (each) => each.origin],
  ["Regs", "Registers a thread", (each) => known(each.regs), () => "", (each) => each.regs],
  ["Local", "Local memory a thread", (each) => bytes(each.local_bytes), (each) => inBytes(each.local_bytes),
    (each) => each.local_bytes],
  ["Spills", "Registers spilled: bytes stored / loaded, a thread", spills, () => "",
    (each) => (each.spill_store_bytes === null ? null : each.spill_store_bytes + (each.spill_load_bytes ?? 0))],
  ["Shared", "Static shared memory a block", (each) => bytes(each.static_shared_bytes),
    (each) => inBytes(each.static_shared_bytes), (each) => each.static_shared_bytes],
  ["Const", "Constant memory", (each) => bytes(each.const_bytes), (each) => inBytes(each.const_bytes),
    (each) => each.const_bytes],
  ["Configurations", "Grid, block · theoretical occupancy and what limits it", uses,
    (each) => each.uses.map((use) => `${useText(use)} · ${counted(use.launches, "launch", "launches")}`).join("\n")
      || "not launched", (each) => each.uses[0]?.occupancy ?? null],
  ["CC", "Compute capability", (each) => clean(each.compute_capability ?? MISSING), () => "",
    (each) => parseFloat(each.compute_capability ?? "-1")],
  ["Max threads", "Threads a block at most", (each) => known(each.max_threads), () => "", (each) => each.max_threads],
  ["Cubin", "Size of the machine code", (each) => bytes(each.cubin_bytes), (each) => inBytes(each.cubin_bytes),
    (each) => each.cubin_bytes],
  ["LC-S key", "Launch configuration that it is bound to, if it is launch-config sensitive", lcs, () => "", lcs],
  ["Cache file", "File of the disk cache", cacheName,
    (each) => clean(cacheFile(each) ?? "no disk cache file was recorded"), cacheFile],
];
const TEXTS = new Set(["Arguments", "Origin", "Configurations", "LC-S key", "Cache file"]);
const UPWARD = new Set(["#", "Arguments", "Origin", "LC-S key", "Cache file"]);

/** What is told of what the user does. */
interface Told {
  chosen: (key: string) => void;
  checked: () => void;
  entered: () => void;
}

export class SpecializationTable {
  readonly root: HTMLElement;
  /** Keys of the checked ones, two at most. */
  checked = new Set<string>();
  private readonly head = element("thead", "");
  private readonly body = element("tbody", "");
  private kernel?: Kernel;
  private rows: Specialization[] = [];
  private key: string | undefined;
  private sorted = { column: -1, isUp: false };
  private limit = FIRST;
  private varying = new Set<number>();
  /** Puts the rows into the page that are still missing. */
  private rest: (() => void) | null = null;

  constructor(private readonly told: Told) {
    const table = element("table", "ksi-table", this.head, this.body);
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "specializations");
    this.root = element("div", "ksi-scroll ksi-specializations", table);
    this.makeHead();
    this.head.addEventListener("keydown", (event) => rove(event, this.sorts(), { vertical: false, horizontal: true }));
    this.body.addEventListener("keydown", (event) => this.moving(event));
    this.body.addEventListener("click", (event) => this.clicked(event));
  }

  private makeHead() {
    const corner = element("th", "ksi-check"), row = element("tr", "", corner);
    corner.title = "Check two to compare them";
    COLUMNS.forEach(([label, title], at) => {
      // One tab stop of all: the arrows move it.
      const sort = focusable(button("ksi-sort", label, title, () => this.sortBy(at)), at ? -1 : 0);
      sort.removeAttribute("aria-label");
      const head = element("th", TEXTS.has(label) ? "ksi-text" : "", sort);
      head.scope = "col";
      row.append(head);
    });
    this.head.replaceChildren(row);
  }

  private sorts() { return [...this.head.querySelectorAll<HTMLElement>(".ksi-sort")]; }

  private sortBy(column: number) {
    const isUp = UPWARD.has(COLUMNS[column][0]);
    this.sorted = this.sorted.column === column ? { column, isUp: !this.sorted.isUp } : { column, isUp };
    for (const [at, each] of this.sorts().entries()) each.tabIndex = at === column ? 0 : -1;
    this.draw();
  }

  show(kernel: Kernel, key?: string) {
    const isSame = this.kernel?.key === kernel.key;
    this.kernel = kernel;
    this.rows = kernel.specializations;
    this.varying = varying(this.rows);
    const keys = new Set(this.rows.map((each) => each.key));
    this.checked = new Set(isSame ? [...this.checked].filter((each) => keys.has(each)) : []);
    this.key = key;
    if (!isSame) {
      this.limit = FIRST;
      this.root.scrollTop = 0;
    }
    this.draw();
  }

  private order() {
    const { column, isUp } = this.sorted;
    if (column < 0) return this.rows;
    const value = COLUMNS[column][4];
    // What is not known comes last either way.
    return [...this.rows].sort((a, b) => {
      const [x, y] = [value(a) ?? null, value(b) ?? null];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      const order = typeof x === "string" ? x.localeCompare(String(y)) : x - Number(y);
      return isUp ? order : -order;
    });
  }

  private draw() {
    const { scrollTop, scrollLeft } = this.root, hadFocus = this.body.contains(document.activeElement);
    const shown = this.order();
    [...this.head.rows[0].cells].slice(1).forEach((cell, at) => {
      const isHere = at === this.sorted.column;
      cell.setAttribute("aria-sort", isHere ? (this.sorted.isUp ? "ascending" : "descending") : "none");
    });
    // What is out of sight at first comes after the first paint; at once where the box is scrolled or has the focus.
    this.body.replaceChildren(...shown.slice(0, Math.min(AT_ONCE, this.limit)).map((each) => this.row(each)));
    this.rest = () => {
      this.rest = null;
      this.body.append(...shown.slice(AT_ONCE, this.limit).map((each) => this.row(each)));
      if (shown.length > this.limit) this.body.append(this.more(shown.length));
      const rows = this.items(), chosen = rows.find((each) => each.dataset.key === this.key) ?? rows[0];
      if (chosen) chosen.tabIndex = 0;
    };
    const { rest } = this;
    if (hadFocus || scrollTop || shown.length <= AT_ONCE) rest();
    else setTimeout(() => { if (this.rest === rest) rest(); }, AFTER_PAINT_MS);
    if (hadFocus) this.focus();
    Object.assign(this.root, { scrollTop, scrollLeft });
  }

  private more(total: number) {
    const more = focusable(button("ksi-button", `show all ${count(total)}`, "", () => {
      this.limit = Infinity;
      this.draw();
    }));
    const cell = element("td", "ksi-text", more);
    cell.colSpan = COLUMNS.length + 1;
    return element("tr", "ksi-more", cell);
  }

  private row(each: Specialization): HTMLElement {
    const check = focusable(element("input", ""), -1);
    check.type = "checkbox";
    check.checked = this.checked.has(each.key);
    check.setAttribute("aria-label", `compare specialization ${each.number}`);
    const row = focusable(element("tr", "ksi-row", element("td", "ksi-check", check)), -1);
    for (const [label, , text, title] of COLUMNS) {
      const shown = text(each), cell = element("td", TEXTS.has(label) ? "ksi-text" : "");
      cell.append(label === "Arguments" ? typed(each, this.varying) : shown);
      if (label === "Arguments" && each.recording) cell.append(element("div", "ksi-soft", clean(each.recording)));
      const more = title(each);
      cell.title = more || (shown === MISSING ? "not recorded" : "");
      row.append(cell);
    }
    row.setAttribute("aria-selected", String(each.key === this.key));
    row.dataset.key = each.key;
    return row;
  }

  private items(): HTMLElement[] {
    this.rest?.();
    return [...this.body.querySelectorAll<HTMLElement>(".ksi-row")];
  }

  private pick(row: HTMLElement | null) {
    const key = row?.dataset.key;
    if (!row || !key) return;
    this.key = key;
    for (const each of this.items()) {
      each.setAttribute("aria-selected", String(each === row));
      each.tabIndex = each === row ? 0 : -1;
    }
    reveal(this.root, row);
    this.told.chosen(key);
  }

  /** Check these rows and no others; those that are not there are passed over. */
  checkOnly(keys: string[]) {
    this.checked = new Set(keys.filter((key) => this.rows.some((each) => each.key === key)));
    this.drawChecks();
  }

  private check(row: HTMLElement) {
    const { key } = row.dataset;
    if (!key) return;
    if (this.checked.has(key)) this.checked.delete(key);
    else {
      // Two are compared: a third one takes the place of the first.
      if (this.checked.size === 2) this.checked.delete([...this.checked][0]);
      this.checked.add(key);
    }
    this.drawChecks();
  }

  private drawChecks() {
    for (const each of this.items()) {
      const box = each.querySelector("input");
      if (box) box.checked = this.checked.has(each.dataset.key ?? "");
    }
    this.told.checked();
  }

  private clicked(event: MouseEvent) {
    const row = closest(event.target, ".ksi-row");
    if (!row) return;
    if (closest(event.target, ".ksi-check")) {
      this.check(row);
      return;
    }
    if (row.dataset.key !== this.key) this.pick(row);
    row.focus({ preventScroll: true });
  }

  private moving(event: KeyboardEvent) {
    const row = closest(event.target, ".ksi-row");
    if (!row) return;
    const to = rove(event, this.items());
    if (to) this.pick(to);
    else if (event.key === " ") {
      event.preventDefault();
      event.stopPropagation();
      this.check(row);
    } else if (event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      this.told.entered();
    }
  }

  focus() { this.items().find((each) => each.tabIndex === 0)?.focus({ preventScroll: true }); }
}

/** The arguments of which not all rows have the same type. */
function varying(rows: Specialization[]): Set<number> {
  const found = new Set<number>();
  for (const { arguments: own } of rows) {
    own.forEach(([, , full], at) => { if (full !== rows[0].arguments[at]?.[2]) found.add(at); });
  }
  return found;
}

/** Arguments with their types; those that tell the rows apart stand out. */
function typed(each: Specialization, apart: Set<number>) {
  const made = element("span", "ksi-arguments");
  each.arguments.forEach(([name, brief], at) => {
    if (at) made.append(", ");
    made.append(element("b", "", clean(name)), ": ", element("span", apart.has(at) ? "ksi-apart" : "", clean(brief)));
  });
  if (!each.arguments.length) made.append("no arguments");
  return made;
}

function inBytes(value: number | null): string { return value === null ? "" : `${count(value)} bytes`; }
