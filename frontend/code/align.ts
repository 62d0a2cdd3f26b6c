// Two texts aligned line by line: a shortest edit script (Myers' linear-space algorithm), with bounded work.

import type { Region } from "./folds";
import type { CodeText, Found } from "./text";

/** Edits that a search looks ahead; a stretch that needs more is split where the search got furthest. */
const AHEAD = 1000;
/** Steps of searches that were given up, after which the next ones are given up sooner. */
const STEPS = 30_000_000;
const AHEAD_AT_LAST = 32;

/** For each left line its right one, or -1; how many have one; whether work was cut short: there may be more. */
interface Alignment {
  pairs: Int32Array;
  count: number;
  isCoarse: boolean;
}

/** From and up to before: of the left text, and of the right one. */
type Box = readonly [x0: number, x1: number, y0: number, y1: number];

/**
 * Find lines that two sequences share, in order.
 *
 * @param left - A number a line; equal lines have equal numbers.
 */
export function alignLines(left: Int32Array, right: Int32Array): Alignment {
  const pairs = new Int32Array(left.length).fill(-1), [mine, yours] = [common(left, right), common(right, left)];
  const search = new Search(Int32Array.from(mine, (at) => left[at]), Int32Array.from(yours, (at) => right[at]));
  search.run();
  let found = 0;
  for (let at = 0; at < mine.length; at++) {
    if (search.pairs[at] < 0) continue;
    pairs[mine[at]] = yours[search.pairs[at]];
    found += 1;
  }
  return { pairs, count: found, isCoarse: search.isCoarse };
}

/** Places of the lines that the other side has at all: only these can be shared. */
function common(lines: Int32Array, others: Int32Array) {
  const known = new Set(others), made: number[] = [];
  for (let at = 0; at < lines.length; at++) if (known.has(lines[at])) made.push(at);
  return Int32Array.from(made);
}

class Search {
  /** For each left line its right one, -1 for none. */
  readonly pairs: Int32Array;
  isCoarse = false;
  private readonly shift: number;
  private readonly ahead: Int32Array;
  private readonly back: Int32Array;
  private limit = AHEAD;
  private steps = 0;

  constructor(private readonly left: Int32Array, private readonly right: Int32Array) {
    this.pairs = new Int32Array(left.length).fill(-1);
    // How far each diagonal was followed, from the start and from the end; a diagonal is x - y.
    this.shift = right.length + 1;
    this.ahead = new Int32Array(left.length + right.length + 3);
    this.back = new Int32Array(left.length + right.length + 3);
  }

  run() {
    const boxes: Box[] = [[0, this.left.length, 0, this.right.length]];
    for (let box = boxes.pop(); box; box = boxes.pop()) {
      let [x0, x1, y0, y1] = box;
      while (x0 < x1 && y0 < y1 && this.left[x0] === this.right[y0]) this.pairs[x0++] = y0++;
      while (x0 < x1 && y0 < y1 && this.left[x1 - 1] === this.right[y1 - 1]) this.pairs[--x1] = --y1;
      if (x0 === x1 || y0 === y1) continue;
      const [x, y] = this.split(x0, x1, y0, y1);
      boxes.push([x0, x, y0, y], [x, x1, y, y1]);
    }
  }

  /** A point on a shortest path through a box, searched for from both of its corners at once. */
  private split(x0: number, x1: number, y0: number, y1: number): [number, number] {
    const { left, right, ahead, back, shift } = this, least = x0 - y1, most = x1 - y0, start = x0 - y0, end = x1 - y1;
    const isOdd = ((start - end) & 1) !== 0, none = 2 ** 30;
    let [aheadLow, aheadHigh, backLow, backHigh] = [start, start, end, end];
    ahead[start + shift] = x0;
    back[end + shift] = x1;
    for (let edits = 1; ; edits++) {
      if (aheadLow > least) ahead[--aheadLow - 1 + shift] = -1; else aheadLow += 1;
      if (aheadHigh < most) ahead[++aheadHigh + 1 + shift] = -1; else aheadHigh -= 1;
      for (let diagonal = aheadHigh; diagonal >= aheadLow; diagonal -= 2) {
        const at = diagonal + shift;
        let x = ahead[at - 1] >= ahead[at + 1] ? ahead[at - 1] + 1 : ahead[at + 1];
        let y = x - diagonal;
        while (x < x1 && y < y1 && left[x] === right[y]) { x += 1; y += 1; }
        ahead[at] = x;
        if (isOdd && backLow <= diagonal && diagonal <= backHigh && back[at] <= x) return [x, y];
      }
      if (backLow > least) back[--backLow - 1 + shift] = none; else backLow += 1;
      if (backHigh < most) back[++backHigh + 1 + shift] = none; else backHigh -= 1;
      for (let diagonal = backHigh; diagonal >= backLow; diagonal -= 2) {
        const at = diagonal + shift;
        let x = back[at - 1] < back[at + 1] ? back[at - 1] : back[at + 1] - 1;
        let y = x - diagonal;
        while (x > x0 && y > y0 && left[x - 1] === right[y - 1]) { x -= 1; y -= 1; }
        back[at] = x;
        if (!isOdd && aheadLow <= diagonal && diagonal <= aheadHigh && x <= ahead[at]) return [x, y];
      }
      if (edits >= this.limit) {
        this.isCoarse = true;
        this.steps += 2 * edits * edits;
        if (this.steps > STEPS) this.limit = AHEAD_AT_LAST;
        return this.furthest([x0, x1, y0, y1], [aheadLow, aheadHigh, backLow, backHigh]);
      }
    }
  }

  /** Where a search that is given up got furthest, from the start or from the end. */
  private furthest([x0, x1, y0, y1]: Box, [aheadLow, aheadHigh, backLow, backHigh]: Box): [number, number] {
    let forward = -1, backward = 2 ** 30, ahead: [number, number] = [x0, y0], back: [number, number] = [x1, y1];
    for (let diagonal = aheadHigh; diagonal >= aheadLow; diagonal -= 2) {
      const x = Math.min(this.ahead[diagonal + this.shift], x1, y1 + diagonal), y = x - diagonal;
      if (x + y > forward) [forward, ahead] = [x + y, [x, y]];
    }
    for (let diagonal = backHigh; diagonal >= backLow; diagonal -= 2) {
      const x = Math.max(this.back[diagonal + this.shift], x0, y0 + diagonal), y = x - diagonal;
      if (x + y < backward) [backward, back] = [x + y, [x, y]];
    }
    return x1 + y1 - backward < forward - x0 - y0 ? ahead : back;
  }
}

// What one and the same computation may name differently: registers, labels, metadata, and names made from types.
const LOOSE: Record<string, RegExp | undefined> = {
  ptx: /(%[a-z]+)\d+\b|(\$L)[\w$]+|(_Z)\w{8,}/g,
  sass: /\b((?:U?R|U?P|B))\d+\b|(\.L_)\w+|(_Z)\w{8,}/g,
  llvm: /(%)(?:"[^"]*"|[\w.$-]+)|([!#])\d+|(label) |(_Z)\w{8,}|^()(?:"[^"]*"|[\w.$-]+):/g,
  mlir: /(%)[\w$.-]+/g,
  types: /(\$)[\w.]+/g,
};
/** What says where an instruction stands: its address, and the number of its location. */
const PLACES: Record<string, RegExp | undefined> = { sass: /\/\*[\da-f]{4,}\*\//g, mlir: /#loc\d+/g };

/** What a line is compared by. Where an instruction stands is never compared. */
function comparedAs(language: string, line: string, isLoose: boolean): string {
  const place = PLACES[language], text = place ? line.replace(place, "") : line;
  const loose = isLoose && LOOSE[language];
  if (!loose) return text;
  return text.replace(loose, (...groups) => groups.slice(1, -2).find((each) => each !== undefined) ?? "");
}

/** Numbers for the lines of two texts, equal where the lines compare as equal. */
function lineNumbers(texts: CodeText[], isLoose: boolean): Int32Array[] {
  const known = new Map<string, number>();
  return texts.map((text) => Int32Array.from({ length: text.count }, (_, line) => {
    const key = comparedAs(text.language, text.line(line), isLoose);
    let number = known.get(key);
    if (number === undefined) known.set(key, number = known.size);
    return number;
  }));
}

const WORDS = /%"[^"]*"|[%@$.!#]?[\w$.]+|\s+|[^]/g;
const MOST_WORDS = 400;

/**
 * Which columns of two lines differ.
 *
 * @returns Ranges of the left line and of the right one, as `lineElement` marks them.
 */
export function changedWords(language: string, left: string, right: string, isLoose: boolean): Found[][] {
  const lines = [left, right].map((line) => line.match(WORDS) ?? []);
  const keys = lines.map((words) => words.map((word) => comparedAs(language, word, isLoose)));
  if (Math.max(lines[0].length, lines[1].length) > MOST_WORDS) {
    return [left, right].map((line): Found[] => [[0, line.length, false]]);
  }
  const known = new Map<string, number>(), [mine, yours] = keys.map((words) => Int32Array.from(words, (word) => {
    const number = known.get(word) ?? known.size;
    known.set(word, number);
    return number;
  }));
  const { pairs } = alignLines(mine, yours), paired = new Set(pairs);
  const isSame = [(at: number) => pairs[at] >= 0, (at: number) => paired.has(at)];
  return lines.map((words, side) => {
    const made: Found[] = [];
    let column = 0;
    words.forEach((word, at) => {
      const last = made[made.length - 1];
      if (!isSame[side](at)) {
        if (last?.[1] === column) last[1] += word.length;
        else made.push([column, column + word.length, false]);
      }
      column += word.length;
    });
    return made;
  });
}

// ---- Rows of a comparison: which line stands beside which, and what about them is different ----

/** What a row is: the same on both sides, changed, or on one side only. */
export const PAIR = { same: 0, changed: 1, left: 2, right: 3 };
const CONTEXT = 3;
const LEAST_FOLDED = 4;
/** Of texts longer than this that share less than half of their lines, lines are paired without register numbers. */
const LONG = 60;

export interface Comparison {
  /** Each row's lines, -1 for none, and what it is, of `PAIR`. */
  left: Int32Array;
  right: Int32Array;
  kinds: Uint8Array;
  /** How many rows there are of each kind. */
  counts: number[];
  /** Rows at which differences begin. */
  hunks: number[];
  /** Stretches of equal rows, to fold. */
  equal: Region[];
  /** Whether work was cut short. */
  isCoarse: boolean;
  /** Whether lines were paired without their register numbers, too many being different. */
  isByShape: boolean;
}

/** Compare two texts; if `isLoose`, lines that differ in register numbers, labels and mangled names are the same. */
export function compareTexts(left: CodeText, right: CodeText, isLoose: boolean): Comparison {
  const texts = [left, right], exact = lineNumbers(texts, isLoose);
  const loose = isLoose ? exact : lineNumbers(texts, true);
  let found = alignLines(exact[0], exact[1]), isByShape = false;
  const least = Math.min(left.count, right.count);
  if (!isLoose && least > LONG && (found.isCoarse || found.count < least / 2)) {
    const shaped = alignLines(loose[0], loose[1]);
    if (shaped.count > found.count) [found, isByShape] = [shaped, true];
  }
  const rows = new PairRows(left.count + right.count);
  let x = 0, y = 0;
  const close = (toX: number, toY: number) => {
    gap(rows, [x, toX, y, toY], isLoose || isByShape ? null : loose);
    [x, y] = [toX, toY];
  };
  for (let at = 0; at < left.count; at++) {
    const pair = found.pairs[at];
    if (pair < 0) continue;
    close(at, pair);
    rows.add(x, y, exact[0][x] === exact[1][y] ? PAIR.same : PAIR.changed);
    [x, y] = [x + 1, y + 1];
  }
  close(left.count, right.count);
  return { ...rows.done(), isCoarse: found.isCoarse, isByShape };
}

/** Rows of lines that have no equal: those of the same shape side by side, the others as they come. */
function gap(rows: PairRows, [x0, x1, y0, y1]: Box, loose: Int32Array[] | null) {
  if (x0 === x1 || y0 === y1 || !loose) {
    beside(rows, [x0, x1, y0, y1]);
    return;
  }
  const { pairs } = alignLines(loose[0].subarray(x0, x1), loose[1].subarray(y0, y1));
  let x = x0, y = y0;
  for (let at = x0; at < x1; at++) {
    const pair = pairs[at - x0];
    if (pair < 0) continue;
    beside(rows, [x, at, y, y0 + pair]);
    rows.add(at, y0 + pair, PAIR.changed);
    [x, y] = [at + 1, y0 + pair + 1];
  }
  beside(rows, [x, x1, y, y1]);
}

function beside(rows: PairRows, [x0, x1, y0, y1]: Box) {
  const both = Math.min(x1 - x0, y1 - y0);
  for (let at = 0; at < both; at++) rows.add(x0 + at, y0 + at, PAIR.changed);
  for (let x = x0 + both; x < x1; x++) rows.add(x, -1, PAIR.left);
  for (let y = y0 + both; y < y1; y++) rows.add(-1, y, PAIR.right);
}

class PairRows {
  private readonly left: Int32Array;
  private readonly right: Int32Array;
  private readonly kinds: Uint8Array;
  private n = 0;

  constructor(most: number) {
    this.left = new Int32Array(most);
    this.right = new Int32Array(most);
    this.kinds = new Uint8Array(most);
  }

  add(left: number, right: number, kind: number) {
    this.left[this.n] = left;
    this.right[this.n] = right;
    this.kinds[this.n++] = kind;
  }

  done() {
    const { n } = this, kinds = this.kinds.subarray(0, n), counts = [0, 0, 0, 0];
    const hunks: number[] = [], equal: Region[] = [];
    let start = -1;
    for (let row = 0; row <= n; row++) {
      const isSame = row < n && kinds[row] === PAIR.same;
      if (row < n) {
        counts[kinds[row]] += 1;
        if (!isSame && (row === 0 || kinds[row - 1] === PAIR.same)) hunks.push(row);
      }
      if (isSame && start < 0) start = row;
      if (!isSame && start >= 0) {
        const from = start === 0 ? 0 : start + CONTEXT, to = row === n ? n - 1 : row - CONTEXT - 1;
        if (to - from >= LEAST_FOLDED) equal.push({ start: from, end: to, kind: "metadata" });
        start = -1;
      }
    }
    return { left: this.left.subarray(0, n), right: this.right.subarray(0, n), kinds, counts, hunks, equal };
  }
}
