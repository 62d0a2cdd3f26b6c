// Search in a code text: every match by line and columns, and which one is the current one.

import type { CodeText, Found } from "./text";

/** Matches that are kept; beyond them a search ends and says so. */
const MOST = 100_000;
const MILLISECONDS = 400;

export class CodeFinder {
  query = "";
  /** What is wrong with a wrong expression. */
  problem = "";
  /** Whether the search ended early. */
  isCut = false;
  /** Which match is the current one, -1 for none. */
  now = -1;
  lines: number[] = [];
  private froms: number[] = [];
  private tos: number[] = [];

  constructor(private readonly text: CodeText) {}

  private clear() {
    Object.assign(this, { query: "", problem: "", isCut: false, now: -1 });
    this.lines = [];
    this.froms = [];
    this.tos = [];
  }

  get count() { return this.lines.length; }

  /**
   * Find all matches; letters match whatever their case.
   *
   * @param isPattern - Whether it is a regular expression.
   * @returns How many there are; `problem` says what is wrong with a wrong expression.
   */
  find(query: string, isPattern: boolean) {
    this.clear();
    this.query = query;
    if (!query) return 0;
    let shape: RegExp;
    try {
      shape = new RegExp(isPattern ? query : query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), isPattern ? "giu" : "gi");
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      const said = message.replace(/^Invalid regular expression: (?:\/.*\/[a-z]*: )?/s, "");
      this.problem = `not a regular expression: ${said}`;
      return 0;
    }
    if (isPattern && repeatsRepeats(query)) {
      this.problem = "not searched for: a repeat in a repeated group may take forever";
      return 0;
    }
    if (isPattern) this.byLine(shape);
    else this.throughout(shape);
    return this.count;
  }

  /** A plain text's matches, in one go through all of the text. */
  private throughout(shape: RegExp) {
    const { text, starts } = this.text;
    let line = 0;
    for (let match = shape.exec(text); match; match = shape.exec(text)) {
      while (starts[line + 1] <= match.index) line += 1;
      if (!this.add(line, match.index - starts[line], match[0].length)) return;
    }
  }

  /** A pattern's matches, line by line, for as long as is bearable. */
  private byLine(shape: RegExp) {
    const until = performance.now() + MILLISECONDS;
    for (let line = 0; line < this.text.count; line++) {
      if (line % 64 === 63 && performance.now() > until) {
        this.isCut = true;
        return;
      }
      for (const match of this.text.line(line).matchAll(shape)) {
        // What matches nothing, as `x*` does, has nothing to show.
        if (match[0] && !this.add(line, match.index, match[0].length)) return;
      }
    }
  }

  private add(line: number, from: number, length: number) {
    this.lines.push(line);
    this.froms.push(from);
    this.tos.push(from + length);
    this.isCut = this.count >= MOST;
    return !this.isCut;
  }

  /** Make the first match in or after a line the current one, or the very first. */
  start(line: number) {
    if (!this.count) return -1;
    const at = this.first(line);
    this.now = at < this.count ? at : 0;
    return this.lines[this.now];
  }

  /** The next or previous match; after the last one comes the first. Returns its line, -1 if there is none. */
  step(isForward: boolean) {
    if (!this.count) return -1;
    this.now = (this.now + (isForward ? 1 : -1) + this.count) % this.count;
    return this.lines[this.now];
  }

  /** Columns to mark in a line: from, to, whether it is the current match. */
  in(line: number): Found[] {
    if (!this.count) return [];
    const made: Found[] = [];
    // A line of a megabyte may have as many matches; those around the current one are enough.
    for (let at = this.first(line); at < this.count && this.lines[at] === line && made.length < 2000; at++) {
      made.push([this.froms[at], this.tos[at], at === this.now]);
    }
    if (this.lines[this.now] === line && !made.some((each) => each[2])) {
      return [[this.froms[this.now], this.tos[this.now], true]];
    }
    return made;
  }

  /** The first match in or after a line. */
  private first(line: number) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lines[middle] < line) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** `3 of 128`, `no match`, or what is wrong. */
  told(grouped: (value: number) => string) {
    if (!this.query) return "";
    if (this.problem) return this.problem;
    if (!this.count) return this.isCut ? "none so far: too slow" : "no match";
    return `${grouped(this.now + 1)} of ${grouped(this.count)}${this.isCut ? "+" : ""}`;
  }
}

/**
 * Whether a group that is repeated without end has such a repeat inside, as `(x+)*` does: on a line that does not
 * match, the browser would try more ways than anyone can wait for, and nothing can stop it.
 */
function repeatsRepeats(query: string) {
  const groups = [false];
  // Escapes and classes are one piece each; a closing bracket is taken with what repeats it.
  const pieces = /\\.|\[(?:\\.|[^\]\\])*\]|\(|\)(?:[*+]|\{\d+,\d*\})?|[*+]|\{\d+,\d*\}/gsu;
  for (const [piece] of query.matchAll(pieces)) {
    if (piece === "(") groups.push(false);
    else if (piece[0] === ")") {
      const inside = groups.pop() ?? false;
      if (inside && piece.length > 1) return true;
      groups[groups.length - 1] ||= inside || piece.length > 1;
    } else if ("*+{".includes(piece[0])) groups[groups.length - 1] = true;
  }
  return false;
}
