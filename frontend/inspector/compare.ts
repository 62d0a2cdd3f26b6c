// Two specializations side by side: arguments and resources with differences marked, and their code as a diff.

import { type DiffView, diffView } from "../code/diff";
import { element } from "../shared/dom";
import { MISSING } from "../shared/generated";
import { clean, count } from "../shared/text";
import { type Page, contentOf, messageOf, typesContent } from "./code";
import {
  type Cell, type Row, bytes, cacheName, known, lcs, note, plainTable, spills, time, uses,
} from "./elements";
import type { Answer, Argument, Form, Specialization } from "./wire";

const RESOURCES: [
  label: string, words: (each: Specialization) => string, value?: (each: Specialization) => number | null,
][] = [
  ["Compute capability", (each) => clean(each.compute_capability ?? MISSING)],
  ["Registers a thread", (each) => known(each.regs), (each) => each.regs],
  ["Static shared memory", (each) => bytes(each.static_shared_bytes), (each) => each.static_shared_bytes],
  ["Local memory a thread", (each) => bytes(each.local_bytes), (each) => each.local_bytes],
  ["Constant memory", (each) => bytes(each.const_bytes), (each) => each.const_bytes],
  ["Spills, stored / loaded", spills],
  ["Threads a block at most", (each) => known(each.max_threads), (each) => each.max_threads],
  ["Machine code", (each) => bytes(each.cubin_bytes), (each) => each.cubin_bytes],
  ["Origin", (each) => clean(each.origin)],
  ["Compile time", (each) => time(each.compile_ns)],
  ["Launches", (each) => count(each.launches)],
  ["Host time of a launch, median", (each) => time(each.median_ns)],
  ["Launch configurations", uses],
  ["LC-S key", lcs],
  ["Cache file", cacheName],
];

/** Arguments and resources of two specializations as two tables. */
export function resourcesPane(left: Specialization, right: Specialization) {
  const heads = ["", `#${left.number}`, `#${right.number}`, "Difference"];
  const classes = ["ksi-text", "ksi-text", "ksi-text", "ksi-text"];
  const names = [...left.arguments, ...right.arguments.slice(left.arguments.length)];
  const types = names.map(([name], at): Row => {
    const [a, b] = [left.arguments[at], right.arguments[at]];
    const isSame = a?.[2] === b?.[2], cells = [clean(name), shownType(a), shownType(b), isSame ? "" : "another type"];
    return { mark: isSame ? "" : "ksi-differs", cells };
  });
  const more = [...new Map([...left.more, ...right.more]).keys()].map((label): typeof RESOURCES[number] => [
    label[0].toUpperCase() + label.slice(1), (each) => new Map(each.more).get(label) ?? MISSING]);
  const resources = [...RESOURCES, ...more].map(([label, words, value]): Row => {
    const [a, b] = [words(left), words(right)], isSame = a === b;
    const difference = isSame ? "" : (value && changed(value(left), value(right))) || "differs";
    return { mark: isSame ? "" : "ksi-differs", cells: [label, titled(a), titled(b), difference] };
  });
  return element("div", "ksi-both",
    element("div", "ksi-caption", "Arguments"), plainTable(heads, types, classes),
    element("div", "ksi-caption", "Resources"), plainTable(heads, resources, classes));
}

export class ComparePane {
  readonly root = element("div", "ksi-code");
  private view: DiffView | null = null;
  private token: object | null = null;

  constructor(private readonly page: Page) {}

  destroy() {
    this.token = null;
    this.view?.destroy();
    this.view = null;
  }

  async show(left: Specialization, right: Specialization, form: Form) {
    const token = this.token = {};
    this.view?.destroy();
    this.view = null;
    const waits = setTimeout(() => token === this.token && this.say(element("div", "ksi-wait", "reading …")), 150);
    try {
      const asked = [left, right].map((each) => this.page.ask({ what: "code", specialization: each.key, form }));
      const both = await Promise.all(asked);
      if (token === this.token) this.draw([left, right], both, form);
    } catch (problem) {
      if (token === this.token) this.say(note(messageOf(problem)));
    } finally {
      clearTimeout(waits);
    }
  }

  private say(...what: Node[]) { this.root.replaceChildren(...what); }

  private draw(pair: Specialization[], both: Answer[], form: Form) {
    const without = both.findIndex((each) => !each.has_text);
    if (without >= 0) {
      this.say(note(`#${pair[without].number}: ${both[without].note}`, both[without].fix));
      return;
    }
    const made = both.map((each) => (form === "types" ? typesContent(each, false) : contentOf(each, form)));
    made.forEach((each, at) => { each.name = `#${pair[at].number} ${each.name}`; });
    const host = element("div", "ksi-side");
    this.say(host);
    this.view = diffView(host, { notice: (text) => this.page.notice(text) });
    this.view.show(made[0], made[1]);
  }

  focus() { this.view?.focus(); }
}

function shownType(argument: Argument | undefined): Cell {
  return argument ? [clean(argument[1]), clean(argument[2])] : [MISSING, "it has no such argument"];
}

function titled(text: string): Cell { return text === MISSING ? [text, "not recorded"] : text; }

function changed(a: number | null, b: number | null): string {
  if (a === null || b === null || a === b) return "";
  const change = b - a;
  return `${change > 0 ? "+" : "−"}${count(Math.abs(change))}`;
}
