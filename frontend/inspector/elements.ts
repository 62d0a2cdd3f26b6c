// What the inspector is made of: elements, roving focus, and the words of its facts. Names go in as text only.

import { type Child, element } from "../shared/dom";
import { MISSING } from "../shared/generated";
import { clean, count, duration, size } from "../shared/text";
import type { Specialization, Use } from "./wire";

/** A sentence of the analysis as nodes, in which names in `backticks` are set as code. */
export function sentence(text: string): (HTMLElement | string)[] {
  return clean(text).split(/`([^`<>]+)`/).map((part, at) => (at % 2 ? element("code", "ksi-arg", part) : part));
}

/** What is said where something is not there: a sentence, and what to do about it. */
export function note(text: string, fix?: string | null, ...more: Child[]): HTMLElement {
  const made = element("div", "ksi-note", element("span", "", text));
  if (fix) made.append(" ", element("span", "ksi-fix", fix));
  made.append(...more.filter((each) => each !== null && each !== undefined));
  return made;
}

/** What stands in a cell: a text or an element, perhaps with a title. */
export type Cell = Node | string | [shown: Node | string, title: string];

export interface Row {
  cells: Cell[];
  /** The row's class. */
  mark?: string;
}

/** A table of cells that are texts, elements or [text, title]; `classes` are its columns'. */
export function plainTable(heads: Cell[], rows: Row[], classes: string[] = []): HTMLElement {
  const cell = (tag: "td" | "th", value: Cell, at: number) => {
    const [text, title] = Array.isArray(value) ? value : [value, ""];
    const made = element(tag, classes[at] ?? "", text);
    if (title) made.title = title;
    return made;
  };
  const head = element("tr", "", ...heads.map((each, at) => cell("th", each, at)));
  const line = ({ cells, mark = "" }: Row) => element("tr", mark, ...cells.map((each, at) => cell("td", each, at)));
  return element("div", "ksi-scroll", element("table", "ksi-plain", element("thead", "", head),
    element("tbody", "", ...rows.map(line))));
}

/** Bring an element of a scrolling box into sight without moving the page. */
export function reveal(box: HTMLElement, item: HTMLElement) {
  const outer = box.getBoundingClientRect(), inner = item.getBoundingClientRect();
  const top = box.querySelector("thead")?.getBoundingClientRect().height ?? 0;
  if (inner.top < outer.top + top) box.scrollTop -= outer.top + top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}

// ---- Words ----

export function known(value: number | null, words: (value: number) => string = count): string {
  return value === null ? MISSING : words(value);
}

export function bytes(value: number | null) { return known(value, (each) => (each === 0 ? "0" : size(each))); }

export function time(value: number | null) { return known(value, duration); }

export function dims(values: number[] | null): string {
  if (!values) return "unknown";
  const kept = [...values];
  while (kept.length > 1 && kept.at(-1) === 1) kept.pop();
  return kept.map((each) => count(each)).join(" × ");
}

export function share(value: number | null) { return known(value, (each) => `${Math.round(each * 100)} %`); }

/** The last part of a path or a qualified name. */
export function tail(text: string) { return clean(String(text).split(/[/\\]/).at(-1)); }

export function signature(each: Specialization) {
  return each.arguments.map(([name, brief]) => `${clean(name)}: ${clean(brief)}`).join(", ") || "no arguments";
}

/** The types as Numba prints them, a line an argument. */
export function fullSignature(each: Specialization) {
  return each.arguments.map(([name, , full]) => `${clean(name)}: ${clean(full)}`).join("\n") || "no arguments";
}

export function spills(each: Specialization) {
  if (each.spill_store_bytes === null && each.spill_load_bytes === null) return MISSING;
  if (!each.spill_store_bytes && !each.spill_load_bytes) return "0";
  return `${bytes(each.spill_store_bytes)} / ${bytes(each.spill_load_bytes)}`;
}

/** Launch configurations in a line: the one of most launches, its occupancy and what limits that. */
export function uses(each: Specialization) {
  if (!each.uses.length) return MISSING;
  const more = each.uses.length > 1 ? ` +${each.uses.length - 1}` : "";
  return `${useText(each.uses[0])}${more}`;
}

export function useText({ griddim, blockdim, occupancy, limited_by: limits }: Use): string {
  const parts = [`${dims(griddim)}, ${dims(blockdim)}`];
  if (occupancy !== null) parts.push(share(occupancy) + (limits.length ? ` ${limits.join(", ")}` : ""));
  return parts.join(" · ");
}

export function lcs(each: Specialization) {
  if (each.bound) return clean(each.bound);
  return each.launch_config_sensitive === null ? MISSING : each.launch_config_sensitive ? "yes" : "no";
}

/** The disk cache's file of a specialization, or what stands for it. */
export function cacheFile(each: Specialization): string | null {
  return each.compiles.map((made) => made.cache_data_file ?? made.cache_file).filter(Boolean).at(-1) ?? null;
}

/** The name of that file. */
export function cacheName(each: Specialization): string {
  const file = cacheFile(each);
  return file === null ? MISSING : tail(file);
}
