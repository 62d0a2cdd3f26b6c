// Two specializations side by side: arguments and resources with differences marked, and their code as a diff.

import { diffView } from "./code_diff.js";
import { content, typesContent } from "./inspector_code.js";
import {
  bytes, cacheFile, element, known, lcs, note, plainTable, spills, tail, time, uses,
} from "./inspector_elements.js";
import { clean, count } from "./text.js";

const RESOURCES = [
  ["Compute capability", (each) => clean(each.cc ?? "–")],
  ["Registers a thread", (each) => known(each.regs), (each) => each.regs],
  ["Static shared memory", (each) => bytes(each.shared), (each) => each.shared],
  ["Local memory a thread", (each) => bytes(each.local), (each) => each.local],
  ["Constant memory", (each) => bytes(each.const), (each) => each.const],
  ["Spills, stored / loaded", spills],
  ["Threads a block at most", (each) => known(each.max_threads), (each) => each.max_threads],
  ["Machine code", (each) => bytes(each.cubin), (each) => each.cubin],
  ["Origin", (each) => clean(each.origin)],
  ["Compile time", (each) => time(each.compile_ns)],
  ["Launches", (each) => count(each.launches)],
  ["Host time of a launch, median", (each) => time(each.median_ns)],
  ["Launch configurations", uses],
  ["LC-S key", lcs],
  ["Cache file", (each) => (cacheFile(each) ? tail(cacheFile(each)) : "–")],
];

/** Arguments and resources of two specializations as two tables. */
export function resourcesPane(left, right) {
  const heads = ["", `#${left.number}`, `#${right.number}`, "Difference"];
  const classes = ["ksi-text", "ksi-text", "ksi-text", "ksi-text"];
  const names = [...left.arguments, ...right.arguments.slice(left.arguments.length)];
  const types = names.map(([name], at) => {
    const [a, b] = [left.arguments[at], right.arguments[at]];
    const isSame = a?.[2] === b?.[2], cells = [clean(name), shownType(a), shownType(b), isSame ? "" : "another type"];
    return { mark: isSame ? "" : "ksi-differs", cells };
  });
  const resources = RESOURCES.map(([label, words, value]) => {
    const [a, b] = [words(left), words(right)], isSame = a === b;
    const difference = isSame ? "" : (value && changed(value(left), value(right))) || "differs";
    return { mark: isSame ? "" : "ksi-differs", cells: [label, titled(a), titled(b), difference] };
  });
  return element("div", "ksi-both",
    element("div", "ksi-caption", "Arguments"), plainTable(heads, types, classes),
    element("div", "ksi-caption", "Resources"), plainTable(heads, resources, classes));
}

export class ComparePane {
  /** @param {{ask: Function, notice: Function}} page - What it asks, and how it tells. */
  constructor(page) {
    this.page = page;
    this.root = element("div", "ksi-code");
  }

  destroy() {
    this.token = null;
    this.view?.destroy();
    this.view = null;
  }

  async show(left, right, form) {
    const token = this.token = {};
    this.view?.destroy();
    this.view = null;
    const waits = setTimeout(() => token === this.token && this.say(element("div", "ksi-wait", "reading …")), 150);
    try {
      const asked = [left, right].map((each) => this.page.ask({ what: "code", specialization: each.key, form }));
      const both = await Promise.all(asked);
      if (token === this.token) this.draw([left, right], both, form);
    } catch (problem) {
      if (token === this.token) this.say(note(clean(problem.message)));
    } finally {
      clearTimeout(waits);
    }
  }

  say(...what) { this.root.replaceChildren(...what); }

  draw(pair, both, form) {
    const without = both.findIndex((each) => !each.has_text);
    if (without >= 0) {
      this.say(note(`#${pair[without].number}: ${both[without].note}`, both[without].fix));
      return;
    }
    const made = both.map((each) => (form === "types" ? typesContent(each, false) : content(each, form)));
    made.forEach((each, at) => { each.name = `#${pair[at].number} ${each.name}`; });
    const host = element("div", "ksi-side");
    this.say(host);
    this.view = diffView(host, { notice: (text) => this.page.notice(text) });
    this.view.show(...made);
  }

  focus() { this.view?.focus?.(); }
}

function shownType(argument) {
  return argument ? [clean(argument[1]), clean(argument[2])] : ["–", "it has no such argument"];
}

function titled(text) { return text === "–" ? [text, "not recorded"] : text; }

function changed(a, b) {
  if (a === null || b === null || a === b) return "";
  const change = b - a;
  return `${change > 0 ? "+" : "−"}${count(Math.abs(change))}`;
}
