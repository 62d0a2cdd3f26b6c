// Two texts aligned line by line: a shortest edit script (Myers' linear-space algorithm), with bounded work.

/** Edits that a search looks ahead; a stretch that needs more is split where the search got furthest. */
const AHEAD = 1000;
/** Steps of searches that were given up, after which the next ones are given up sooner. */
const STEPS = 30_000_000;
const AHEAD_AT_LAST = 32;

/**
 * Find lines that two sequences share, in order.
 *
 * @param {Int32Array} left - A number a line; equal lines have equal numbers.
 * @param {Int32Array} right
 * @returns {{pairs: Int32Array, count: number, isCoarse: boolean}} For each left line its right one, or -1; how many
 *   have one; whether work was cut short, so that there may be more.
 */
export function alignLines(left, right) {
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
function common(lines, others) {
  const known = new Set(others), made = [];
  for (let at = 0; at < lines.length; at++) if (known.has(lines[at])) made.push(at);
  return Int32Array.from(made);
}

class Search {
  constructor(left, right) {
    Object.assign(this, { left, right });
    this.pairs = new Int32Array(left.length).fill(-1);
    // How far each diagonal was followed, from the start and from the end; a diagonal is x - y.
    this.shift = right.length + 1;
    this.ahead = new Int32Array(left.length + right.length + 3);
    this.back = new Int32Array(left.length + right.length + 3);
    this.limit = AHEAD;
    this.steps = 0;
    this.isCoarse = false;
  }

  run() {
    const boxes = [[0, this.left.length, 0, this.right.length]];
    while (boxes.length) {
      let [x0, x1, y0, y1] = boxes.pop();
      while (x0 < x1 && y0 < y1 && this.left[x0] === this.right[y0]) this.pairs[x0++] = y0++;
      while (x0 < x1 && y0 < y1 && this.left[x1 - 1] === this.right[y1 - 1]) this.pairs[--x1] = --y1;
      if (x0 === x1 || y0 === y1) continue;
      const [x, y] = this.split(x0, x1, y0, y1);
      boxes.push([x0, x, y0, y], [x, x1, y, y1]);
    }
  }

  /** A point on a shortest path through a box, searched for from both of its corners at once. */
  split(x0, x1, y0, y1) {
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
  furthest([x0, x1, y0, y1], [aheadLow, aheadHigh, backLow, backHigh]) {
    let forward = [-1, null], backward = [2 ** 30, null];
    for (let diagonal = aheadHigh; diagonal >= aheadLow; diagonal -= 2) {
      const x = Math.min(this.ahead[diagonal + this.shift], x1, y1 + diagonal), y = x - diagonal;
      if (x + y > forward[0]) forward = [x + y, [x, y]];
    }
    for (let diagonal = backHigh; diagonal >= backLow; diagonal -= 2) {
      const x = Math.max(this.back[diagonal + this.shift], x0, y0 + diagonal), y = x - diagonal;
      if (x + y < backward[0]) backward = [x + y, [x, y]];
    }
    return x1 + y1 - backward[0] < forward[0] - x0 - y0 ? forward[1] : backward[1];
  }
}

// What one and the same computation may name differently: registers, labels, metadata, and names made from types.
const LOOSE = {
  ptx: /(%[a-z]+)\d+\b|(\$L)[\w$]+|(_Z)\w{8,}/g,
  sass: /\b((?:U?R|U?P|B))\d+\b|(\.L_)\w+|(_Z)\w{8,}/g,
  llvm: /(%)(?:"[^"]*"|[\w.$-]+)|([!#])\d+|(label) |(_Z)\w{8,}|^()(?:"[^"]*"|[\w.$-]+):/g,
  types: /(\$)[\w.]+/g,
};
const ADDRESS = /\/\*[\da-f]{4,}\*\//g;

/** What a line is compared by. An instruction's address is its place only, and never compared. */
function comparedAs(language, line, isLoose) {
  const text = language === "sass" ? line.replace(ADDRESS, "") : line;
  if (!isLoose || !LOOSE[language]) return text;
  return text.replace(LOOSE[language], (...groups) => groups.slice(1, -2).find((each) => each !== undefined) ?? "");
}

/** Numbers for the lines of two texts, equal where the lines compare as equal. */
export function lineNumbers(texts, isLoose) {
  const known = new Map();
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
 * @returns {[Array<[number, number, boolean]>, Array<[number, number, boolean]>]} Ranges of the left line and of the
 *   right one, as `lineElement` marks them.
 */
export function changedWords(language, left, right, isLoose) {
  const lines = [left, right].map((line) => line.match(WORDS) ?? []);
  const keys = lines.map((words) => words.map((word) => comparedAs(language, word, isLoose)));
  if (Math.max(lines[0].length, lines[1].length) > MOST_WORDS) {
    return [left, right].map((line) => [[0, line.length, false]]);
  }
  const known = new Map(), numbers = keys.map((words) => Int32Array.from(words, (word) => {
    if (!known.has(word)) known.set(word, known.size);
    return known.get(word);
  }));
  const { pairs } = alignLines(...numbers), paired = new Set(pairs);
  const isSame = [(at) => pairs[at] >= 0, (at) => paired.has(at)];
  return lines.map((words, side) => {
    const made = [];
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
