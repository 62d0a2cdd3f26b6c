// Where a compile's time went: a bar a part, in order or by time, parts that contain others with these below them.

import { button, element, note, time } from "./inspector_elements.js";
import { RECORD_COMPILE } from "./inspector_panes.js";
import { clean, exact, percent } from "./text.js";

const PART_KINDS = {
  wait: "waiting for another compile", passes: "Numba's passes", pass: "pass", device: "device functions",
  phase: "link phase", other: "not accounted for",
};

/** The chart of each compile; `compiles` as compile_parts() of Python returns them. */
export function passesPane(compiles, order) {
  const made = element("div", "ksi-passes");
  const timed = compiles.filter((each) => each.parts.length);
  if (!timed.length) {
    return compiles.length ? note("The passes of its compile are not recorded.")
      : note("It was compiled before anything was recorded: its passes are not known.", RECORD_COMPILE);
  }
  const draw = () => {
    const bar = element("div", "ksi-line");
    const both = [["in order", false], ["by time", true]].map(([label, isSorted]) => {
      const each = button("ksi-toggle", label, "", () => {
        order.isSorted = isSorted;
        draw();
        made.querySelectorAll(".ksi-toggle")[Number(isSorted)].focus();
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

function chart(compile, isSorted) {
  const what = { disk: "Load from the disk cache", load: "Module load", wait: "Wait" }[compile.outcome] ?? "Compile";
  const where = compile.cell ? ` in ${clean(compile.cell)}` : "";
  const head = element("div", "ksi-compile-head", element("b", "", what), `${where} · ${time(compile.ns)}`);
  head.title = exact(compile.ns);
  const rows = [];
  const add = (parts, depth, from) => {
    let at = from;
    const placed = parts.map((part) => {
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

function row([kind, name, ns], depth, begin, whole, isSorted) {
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

function legendOf(compiles) {
  const kinds = new Set();
  const walk = (parts) => parts.forEach(([kind, , , inner]) => { kinds.add(kind); walk(inner); });
  compiles.forEach((each) => walk(each.parts));
  const made = element("span", "ksi-legend");
  for (const kind of ["wait", "passes", "device", "phase", "other"]) {
    if (kinds.has(kind)) made.append(element("span", "", element("i", `ksi-key ksi-${kind}`), PART_KINDS[kind]));
  }
  return made;
}
