// What a specialization ran with and where it came from: its launch configurations, and its compiles with their cache.

import { type Child, button, element } from "../shared/dom";
import { MISSING } from "../shared/generated";
import { clean, count, exact, percent } from "../shared/text";
import { type Cell, type Row, bytes, dims, note, plainTable, sentence, share, time } from "./elements";
import type { Compile, CompileParts, Part, Specialization } from "./wire";

const OUTCOMES: Record<string, string> = {
  compiled: "Compiled", disk: "Loaded from the disk cache", wait: "Another thread compiled it meanwhile",
  failed: "Failed",
};
const TRIGGERS: Record<string, string> = {
  launch: "by a launch", eager: "by a signature in @cuda.jit", specialize: "by specialize()",
  recompile: "by recompile()", device: "for another device", compile: "by compile()",
};

/** What to do where a compile is not recorded. */
const RECORD_COMPILE = "Record the cell that launches it first, with %%kernelscope, to see it.";

/** The launch configurations of a specialization, with occupancy and what limits it. */
export function launchesPane(each: Specialization): HTMLElement {
  if (!each.uses.length) {
    return note("It was not launched in what is recorded here.",
      "Record the cell that launches it, with %%kernelscope, to see it.");
  }
  const heads: Cell[] = ["Grid", "Block", "Launches",
    ["Occupancy", "resident threads over the most that a multiprocessor holds: theoretical"],
    ["Limited by", "what keeps it from holding more"], ["Blocks/SM", "blocks that a multiprocessor holds at once"],
    ["Host, median", "own host time of a launch"], ["GPU, median", "time on the GPU of a launch"],
    ["Dynamic shared", "memory a block"], "Cluster"];
  const rows = each.uses.map((use): Row => ({ cells: [
    dims(use.griddim), dims(use.blockdim), count(use.launches), occupancy(use.occupancy),
    use.limited_by.length ? use.limited_by.map(clean).join(", ") : [MISSING, "not known"],
    missing(use.active_blocks, count),
    missing(use.median_ns, time), missing(use.execute_ns, time),
    missing(use.sharedmem_bytes, (value) => [bytes(value), `${count(value)} bytes`]),
    use.cluster ? dims(use.cluster) : "none",
  ] }));
  return plainTable(heads, rows, ["ksi-text", "ksi-text", "", "", "ksi-text", "", "", "", "", "ksi-text"]);
}

/** The compiles and loads of a specialization: why, from which files, with which key, and what would avoid it. */
export function cachePane(each: Specialization) {
  if (!each.compiles.length) {
    return note(each.origin === "before"
      ? "It was compiled before anything was recorded: neither its compile nor its cache is known."
      : "No compile of it is recorded.", RECORD_COMPILE);
  }
  const made = element("div", "ksi-compiles");
  for (const compile of each.compiles) made.append(compileCard(compile, each));
  return made;
}

function compileCard(compile: Compile, each: Specialization) {
  const head = element("div", "ksi-compile-head", element("b", "", OUTCOMES[compile.outcome] ?? clean(compile.outcome)),
    ` ${TRIGGERS[compile.trigger] ?? clean(compile.trigger)}`, compile.cell ? `, ${clean(compile.cell)}` : "",
    ` · ${time(compile.duration_ns)}`);
  head.title = exact(compile.duration_ns);
  const list = element("dl", "ksi-facts");
  const fact = (label: string, value: string | Child[] | null, what = "not recorded") => {
    const shown = Array.isArray(value) ? value : [value ?? what];
    list.append(element("dt", "", label), element("dd", value === null ? "ksi-absent" : "", ...shown));
  };
  fact("Why", compile.reason ? sentence(compile.reason) : null, "no reason is recorded");
  if (compile.reason_code) fact("Reason code", clean(compile.reason_code));
  if (compile.fix) fact("Fix", sentence(compile.fix));
  const { cache_file: file, cache_data_file: data, cache_key: key, lcs_marker: marker } = compile;
  fact("Index file", file ? clean(file) : null, "none: not compiled with cache=True");
  if (file || data) fact("Data file", data ? clean(data) : null);
  if (file || key) keyParts(key).forEach(([label, value]) => fact(label, value));
  if (file) fact(".lcs marker", marker === null ? null : marker ? "yes: launch-config sensitive" : "no");
  if (each.bound) fact("LC-S key", clean(each.bound));
  const card = element("section", "ksi-compile", head, list);
  card.setAttribute("aria-label", "compile");
  return card;
}

/** A disk cache's key, taken apart where it is the tuple that numba-cuda makes. */
function keyParts(text: string | null): [label: string, value: string | null][] {
  if (!text) return [["Key", null]];
  const parts = topLevel(text);
  const labels = ["Key: signature", "Key: toolkit, CC", "Key: numba-cuda", "Key: code, closure", "Key: launch config"];
  if (parts.length < 3 || parts.length > labels.length) return [["Key", clean(text)]];
  return parts.map((part, at): [string, string] => [labels[at], clean(part)]);
}

/** What stands between the commas of a tuple's text. */
function topLevel(text: string) {
  const inner = text.trim().replace(/^\(([^]*)\)$/, "$1"), parts: string[] = [];
  let depth = 0, from = 0, quote = "";
  for (let at = 0; at <= inner.length; at++) {
    const char = inner[at];
    if (quote) { if (char === quote) quote = ""; } else if (char === "'" || char === '"') quote = char;
    else if ("([{<".includes(char ?? "x")) depth += 1;
    else if (")]}>".includes(char ?? "x")) depth -= 1;
    if (at === inner.length || (char === "," && !depth && !quote)) {
      if (inner.slice(from, at).trim()) parts.push(inner.slice(from, at).trim());
      from = at + 1;
    }
  }
  return parts;
}

function missing(value: number | null, words: (value: number) => Cell): Cell {
  return value === null ? [MISSING, "not recorded"] : words(value);
}

function occupancy(value: number | null): Cell {
  if (value === null) return [MISSING, "not recorded"];
  const bar = element("span", "ksi-bar"), filled = element("i", "");
  filled.style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
  bar.append(filled);
  return element("span", "ksi-occupancy", bar, share(value));
}

// ---- Where a compile's time went: a bar a part, in order or by time, parts that contain others with these below them.

const PART_KINDS: Record<string, string> = {
  wait: "waiting for another compile", passes: "Numba's passes", pass: "pass", device: "device functions",
  phase: "link phase", other: "not accounted for",
};

const MADE: Record<string, string> = { disk: "Load from the disk cache", load: "Module load", wait: "Wait" };

/** The chart of each compile. */
export function passesPane(compiles: CompileParts[], order: { isSorted: boolean }) {
  const made = element("div", "ksi-passes");
  const timed = compiles.filter((each) => each.parts.length);
  if (!timed.length) {
    return compiles.length ? note("The passes of its compile are not recorded.")
      : note("It was compiled before anything was recorded: its passes are not known.", RECORD_COMPILE);
  }
  const draw = () => {
    const bar = element("div", "ksi-line");
    const both = ([["in order", false], ["by time", true]] as const).map(([label, isSorted]) => {
      const each = button("ksi-button ksi-toggle", label, "", () => {
        order.isSorted = isSorted;
        draw();
        made.querySelectorAll<HTMLElement>(".ksi-toggle")[Number(isSorted)].focus();
      });
      each.setAttribute("aria-pressed", String(order.isSorted === isSorted));
      return each;
    });
    bar.append(element("span", "ksi-soft", "Parts"), ...both, legendOf(timed));
    made.replaceChildren(bar, ...timed.map((each) => chart(each, order.isSorted)));
  };
  draw();
  return made;
}

function chart(compile: CompileParts, isSorted: boolean) {
  const what = MADE[compile.outcome] ?? "Compile";
  const where = compile.cell ? `, ${clean(compile.cell)}` : "";
  const head = element("div", "ksi-compile-head", element("b", "", what), `${where} · ${time(compile.ns)}`);
  head.title = exact(compile.ns);
  const rows: HTMLElement[] = [];
  const add = (parts: Part[], depth: number, from: number) => {
    let at = from;
    const placed = parts.map((part): [Part, number] => {
      const begin = at;
      at += part[2];
      return [part, begin];
    });
    if (isSorted) placed.sort((a, b) => b[0][2] - a[0][2]);
    for (const [part, begin] of placed) {
      rows.push(row(part, depth, begin, compile.ns, isSorted));
      add(part[3], depth + 1, begin);
    }
  };
  add(compile.parts, 0, 0);
  const table = element("div", "ksi-chart", ...rows);
  table.setAttribute("role", "list");
  return element("section", "ksi-compile", head, table);
}

function row([kind, name, ns]: Part, depth: number, begin: number, whole: number, isSorted: boolean) {
  const label = element("span", "ksi-part", clean(name));
  label.style.paddingLeft = `${depth * 14}px`;
  const bar = element("i", `ksi-${kind} ${depth ? "ksi-inner" : ""}`);
  bar.style.marginLeft = isSorted || !whole ? "0" : `${Math.min(99.5, (begin / whole) * 100)}%`;
  bar.style.width = whole ? `max(1px, ${(ns / whole) * 100}%)` : "1px";
  const made = element("div", "ksi-chart-row", label, element("span", "ksi-track", bar),
    element("span", "ksi-took", time(ns)), element("span", "ksi-took ksi-soft", whole ? percent(ns / whole) : ""));
  made.setAttribute("role", "listitem");
  made.title = `${clean(name)}: ${exact(ns)}, ${PART_KINDS[kind] ?? kind}`;
  return made;
}

function legendOf(compiles: CompileParts[]) {
  const kinds = new Set<string>();
  const walk = (parts: Part[]): void => parts.forEach(([kind, , , inner]) => { kinds.add(kind); walk(inner); });
  compiles.forEach((each) => walk(each.parts));
  const made = element("span", "ksi-legend");
  for (const kind of ["wait", "passes", "device", "phase", "other"]) {
    if (kinds.has(kind)) made.append(element("span", "", element("i", `ksi-key ksi-${kind}`), PART_KINDS[kind]));
  }
  return made;
}
