// Rows of a comparison: which line stands beside which, and what about them is different.

import { alignLines, lineNumbers } from "./code_align.js";

/** What a row is: the same on both sides, changed, or on one side only. */
export const PAIR = { same: 0, changed: 1, left: 2, right: 3 };
const CONTEXT = 3;
const LEAST_FOLDED = 4;
/** Of texts longer than this that share less than half of their lines, lines are paired without register numbers. */
const LONG = 60;

/**
 * Compare two texts.
 *
 * @param {CodeText} left
 * @param {CodeText} right
 * @param {boolean} isLoose - Whether lines that differ in register numbers, labels and mangled names only are the same.
 * @returns {{left: Int32Array, right: Int32Array, kinds: Uint8Array, counts: number[], hunks: number[],
 *   equal: object[], isCoarse: boolean, isByShape: boolean}} Each row's lines, -1 for none, and `PAIR`; how many rows
 *   there are of each; rows at which differences begin; stretches of equal rows to fold; whether work was
 *   cut short; whether lines were paired without their register numbers, too many being different.
 */
export function compareTexts(left, right, isLoose) {
  const texts = [left, right], exact = lineNumbers(texts, isLoose);
  const loose = isLoose ? exact : lineNumbers(texts, true);
  let found = alignLines(...exact), isByShape = false;
  const least = Math.min(left.count, right.count);
  if (!isLoose && least > LONG && (found.isCoarse || found.count < least / 2)) {
    const shaped = alignLines(...loose);
    if (shaped.count > found.count) [found, isByShape] = [shaped, true];
  }
  const rows = new PairRows(left.count + right.count);
  let x = 0, y = 0;
  const close = (toX, toY) => {
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
function gap(rows, [x0, x1, y0, y1], loose) {
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

function beside(rows, [x0, x1, y0, y1]) {
  const both = Math.min(x1 - x0, y1 - y0);
  for (let at = 0; at < both; at++) rows.add(x0 + at, y0 + at, PAIR.changed);
  for (let x = x0 + both; x < x1; x++) rows.add(x, -1, PAIR.left);
  for (let y = y0 + both; y < y1; y++) rows.add(-1, y, PAIR.right);
}

class PairRows {
  constructor(most) {
    this.left = new Int32Array(most);
    this.right = new Int32Array(most);
    this.kinds = new Uint8Array(most);
    this.n = 0;
  }

  add(left, right, kind) {
    this.left[this.n] = left;
    this.right[this.n] = right;
    this.kinds[this.n++] = kind;
  }

  done() {
    const { n } = this, kinds = this.kinds.subarray(0, n), counts = [0, 0, 0, 0], hunks = [], equal = [];
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
