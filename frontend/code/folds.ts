// Regions of a code text that fold into their first line, and which lines are left to see.

import type { CodeText } from "./text";

/** Lines that fold, from `start` to `end`, both included. Those of kind metadata begin folded. */
export interface Region {
  start: number;
  end: number;
  kind: string;
}

/** A text's functions, headers, metadata and basic blocks, in order of their starts, outer ones first. */
export function regionsOf(text: CodeText): Region[] {
  const find = REGIONS[text.language];
  if (!find) return [];
  const found = find(text).filter(({ start, end }) => end > start);
  return found.sort((a, b) => a.start - b.start || b.end - a.end);
}

type Opened = Omit<Region, "end"> | null;

const PTX_FUNCTION = /^\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\b/;
const PTX_LABEL = /^\s*[$\w]+:(?!:)/;

function ptxRegions(text: CodeText) {
  const made: Region[] = [];
  let depth = 0, opened: Opened = null, block: Opened = null, hasBegun = false;
  const closeBlock = (end: number) => {
    if (block) made.push({ ...block, end: lastFull(text, block.start, end) });
    block = null;
  };
  for (let index = 0; index < text.count; index++) {
    const char = firstChar(text, index);
    if (char === DOT && !depth) {
      const line = text.line(index);
      const isSection = /^\s*\.section\b/.test(line);
      if (isSection || PTX_FUNCTION.test(line)) {
        if (!hasBegun && index > 2) made.push({ start: 0, end: lastFull(text, 0, index), kind: "header" });
        hasBegun = true;
        opened = { start: index, kind: isSection ? "metadata" : "function" };
      }
      if (/;\s*$/.test(line)) opened = null;
    }
    if (char === OPEN || (opened && text.text.charCodeAt(text.starts[index + 1] - 2) === OPEN)) depth += 1;
    else if (char === CLOSE) {
      depth = Math.max(0, depth - 1);
      if (depth) continue;
      closeBlock(index);
      if (opened) made.push({ ...opened, end: index });
      opened = null;
    } else if (depth && opened?.kind === "function" && char !== DOT && char && !isSpace(text, index)
        && PTX_LABEL.test(text.line(index))) {
      closeBlock(index);
      block = { start: index, kind: "block" };
    } else if (!depth && opened && char === SEMICOLON) opened = null;
  }
  return made;
}

const SASS_SECTION = /^\/\/-+\s+(\S+)/;

function sassRegions(text: CodeText) {
  const made: Region[] = [];
  let section: Opened = null, block: Opened = null;
  const close = (end: number) => {
    if (block) made.push({ ...block, end: lastFull(text, block.start, end) });
    // With the empty lines after it, so that folded sections stand close.
    if (section) made.push({ ...section, end: end - 1 });
    section = block = null;
  };
  for (let index = 0; index < text.count; index++) {
    const char = text.text.charCodeAt(text.starts[index]);
    if (char === SLASH) {
      const found = SASS_SECTION.exec(text.line(index));
      if (!found) continue;
      close(index);
      section = { start: index, kind: found[1].startsWith(".text") ? "function" : "metadata" };
    } else if (char === DOT && section?.kind === "function" && /^\.L\w*:/.test(text.line(index))) {
      if (block) made.push({ ...block, end: lastFull(text, block.start, index) });
      block = { start: index, kind: "block" };
    }
  }
  close(text.count);
  return made;
}

function llvmRegions(text: CodeText) {
  const made: Region[] = [];
  let opened: Opened = null, block: Opened = null, run: Opened = null;
  const closeBlock = (end: number) => {
    if (block) made.push({ ...block, end: lastFull(text, block.start, end) });
    block = null;
  };
  for (let index = 0; index <= text.count; index++) {
    const char = index < text.count ? text.text.charCodeAt(text.starts[index]) : 0;
    const kind = char === BANG ? "metadata" : "";
    if (run && kind !== run.kind) {
      if (index - run.start > 3) made.push({ ...run, end: index - 1 });
      run = null;
    }
    if (kind && !run) run = { start: index, kind };
    if (index === text.count || char === SPACE || kind) continue;
    if (!opened && char === LETTER_D && text.line(index).startsWith("define ")) {
      opened = { start: index, kind: "function" };
    } else if (opened && char === CLOSE) {
      closeBlock(index);
      made.push({ ...opened, end: index });
      opened = null;
    } else if (opened && char !== OPEN && /^(?:"[^"]*"|[\w.$-]+):/.test(text.line(index))) {
      closeBlock(index);
      block = { start: index, kind: "block" };
    }
  }
  return made;
}

/** Locations and other aliases, and what a loop or a function holds. */
function mlirRegions(text: CodeText) {
  const made: Region[] = [], opened: number[] = [];
  let run = -1;
  for (let index = 0; index <= text.count; index++) {
    const isAlias = index < text.count && text.text.charCodeAt(text.starts[index]) === HASH;
    if (isAlias && run < 0) run = index;
    if (isAlias || index === text.count) {
      if (index === text.count && run >= 0 && index - run > 3) made.push({ start: run, end: index - 1, kind: "metadata" });
      continue;
    }
    if (run >= 0 && index - run > 3) made.push({ start: run, end: index - 1, kind: "metadata" });
    run = -1;
    if (firstChar(text, index) === CLOSE) {
      const start = opened.pop();
      if (start !== undefined) made.push({ start, end: index, kind: "block" });
    }
    if (text.text.charCodeAt(text.starts[index + 1] - 2) === OPEN) opened.push(index);
  }
  return made;
}

const REGIONS: Record<string, ((text: CodeText) => Region[]) | undefined> = {
  ptx: ptxRegions, sass: sassRegions, llvm: llvmRegions, mlir: mlirRegions,
};

const [DOT, OPEN, CLOSE, SEMICOLON, SLASH, BANG, SPACE, LETTER_D, HASH] = [...".{};/! d#"].map((each) => each.charCodeAt(0));

function isSpace(text: CodeText, index: number) { return text.text.charCodeAt(text.starts[index]) <= 32; }

/** The code of a line's first character that is no space; 0 for an empty line. */
function firstChar(text: CodeText, index: number) {
  for (let at = text.starts[index], end = text.starts[index + 1] - 1; at < end; at++) {
    const code = text.text.charCodeAt(at);
    if (code > 32) return code;
  }
  return 0;
}

/** The last line before `end` that is not empty, `start` at least. */
function lastFull(text: CodeText, start: number, end: number) {
  let last = end - 1;
  while (last > start && !firstChar(text, last)) last -= 1;
  return last;
}

/** Which of the lines are seen, given which regions are folded. */
export class CodeFolds {
  /** Lines that are seen, in order. */
  rows = new Int32Array(0);
  private folded: Set<Region>;
  private readonly heads = new Map<number, Region>();

  constructor(private readonly count: number, readonly regions: Region[]) {
    this.folded = new Set(regions.filter((each) => each.kind === "metadata"));
    // Outer regions come first, and a line folds the outermost one that it begins.
    for (const region of regions) if (!this.heads.has(region.start)) this.heads.set(region.start, region);
    this.lay();
  }

  /** Lay the lines that are seen into rows. */
  private lay() {
    const rows = new Int32Array(this.count);
    const folded = [...this.folded].sort((a, b) => a.start - b.start || b.end - a.end);
    let made = 0, next = 0;
    for (let line = 0; line < this.count; line++) {
      rows[made++] = line;
      while (next < folded.length && folded[next].start < line) next += 1;
      if (next < folded.length && folded[next].start === line) line = folded[next].end;
    }
    this.rows = rows.subarray(0, made);
  }

  /** The row that shows a line, or the head of the fold that hides it. */
  rowOf(line: number) {
    let low = 0, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle] <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  isSeen(line: number) { return this.rows[this.rowOf(line)] === line; }

  /** The region that a line begins, if any, and how many lines it hides; 0 while it is open. */
  head(line: number): Region | null { return this.heads.get(line) ?? null; }

  hides(line: number): number {
    const region = this.head(line);
    return region && this.folded.has(region) ? region.end - region.start : 0;
  }

  /** Fold or open the region that a line begins. Returns whether there is one. */
  toggle(line: number, isFolded?: boolean): boolean {
    const region = this.head(line);
    if (!region || this.folded.has(region) === isFolded) return false;
    if (this.folded.has(region)) this.folded.delete(region);
    else this.folded.add(region);
    this.lay();
    return true;
  }

  /** The head of the innermost region that holds a line; -1 for none. */
  around(line: number) {
    let found = -1;
    for (const { start, end } of this.regions) {
      if (start > line) break;
      if (end >= line) found = start;
    }
    return found;
  }

  foldAll() {
    this.folded = new Set(this.regions);
    this.lay();
  }

  openAll() {
    this.folded.clear();
    this.lay();
  }

  /** Open what hides a line. Returns whether anything did. */
  reveal(line: number) {
    const hiding = [...this.folded].filter(({ start, end }) => start < line && line <= end);
    for (const each of hiding) this.folded.delete(each);
    if (hiding.length) this.lay();
    return hiding.length > 0;
  }
}
