// A code text by lines: where each begins, what its number is, and what was asked to stand beside it.

import { count } from "./text.js";

export class CodeText {
  /**
   * @param {{text: string, language?: string, first?: number, name?: string, lines?: number[],
   *          notes?: Object<number, string[]>}} content - What codeView's `show` takes.
   */
  constructor(content) {
    this.text = String(content.text ?? "");
    this.language = LANGUAGES.includes(content.language) ? content.language : "";
    this.first = content.first ?? 1;
    this.name = content.name ?? "";
    this.lines = content.lines ?? null;
    this.notes = content.notes ?? null;
    this.starts = startsOf(this.text);
    this.count = this.starts.length - 1;
    this.isLongNamed = LONG_NAME.test(this.text);
  }

  /** A line without its end. */
  line(index) {
    const { starts, text } = this;
    let end = starts[index + 1] - 1;
    if (end > starts[index] && text.charCodeAt(end - 1) === 13) end -= 1;
    return text.slice(starts[index], end);
  }

  /** The index of the line that holds a place in the text. */
  lineAt(place) {
    let low = 0, high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** A line's number as it is shown, from its index, and the other way round. */
  number(index) { return index + this.first; }

  index(number) { return number - this.first; }

  has(index) { return index >= 0 && index < this.count; }

  /** The source line that a line came from; 0 for none. */
  origin(index) { return this.lines?.[index] ?? 0; }

  notesOf(index) { return this.notes?.[this.number(index)] ?? null; }

  /** The text between two places, each a line and a column; whichever comes first. */
  between(one, other) {
    const places = [one, other].map(({ line, column }) => this.starts[line] + column).sort((a, b) => a - b);
    return this.text.slice(places[0], places[1]);
  }
}

const LANGUAGES = ["python", "types", "mlir", "llvm", "ptx", "sass"];
// Longer than this, a name is shortened in its middle, so that its end, which tells `_param_0` from `_param_1`, stays.
const LONG_NAME = /[\w$]{49}/;
const LONG_NAMES = /[\w$]{49,}/g;
// Spaces left out before an instruction's address and after it: nvdisasm's columns are so far to the right that narrow
// views would show little else.
const LEAD = 6;
const GAP = 12;
const KEPT_HEAD = 24;
const KEPT_TAIL = 18;
/** Characters of a line that are drawn; the rest is counted. */
export const CODE_COLUMNS = 3000;

// Control characters but the tab, line separators, invisible characters and bidi overrides, which show a text as
// something that it is not.
const HIDDEN = new RegExp("[\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]", "g");

/**
 * What is drawn of a line: pieces in order, each with the columns that it stands for.
 *
 * @param {string} raw - The line.
 * @param {Array<[string, number, number]>} tokens - Kind, first column, end; what is between them has no kind.
 * @param {boolean} isFull - Whether long names are shown in full.
 * @param {Array<[number, number, boolean]>} found - Columns to mark, in order, and whether it is the current match.
 * @returns {Array<{kind: string, from: number, to: number, shown: string, isExact: boolean, mark: number}>} `isExact`
 *   where the text drawn is the line's own; `mark` is 0, 1, or 2 for the current match.
 */
export function piecesOf(raw, tokens, isFull, found) {
  const [start, end] = windowOf(raw, found), pieces = [];
  const add = (kind, from, to, shown) => pieces.push({
    kind, from, to, shown: shown ?? raw.slice(from, to), isExact: shown === undefined, mark: 0,
  });
  const split = (kind, from, to) => {
    let at = from;
    for (const [place, length, shown] of replaced(raw.slice(from, to), from, isFull)) {
      if (place > at) add(kind, at, place);
      add(kind, place, place + length, shown);
      at = place + length;
    }
    if (to > at) add(kind, at, to);
  };
  const narrow = (from, to, by) => {
    const isWide = to - from > by && !raw.slice(from, to).trim();
    if (isWide) add("gap", from, from + by, "");
    split("", isWide ? from + by : from, to);
  };
  if (start > 0) add("cut", 0, start, `… ${count(start)} characters … `);
  let at = start, last = "";
  for (const [kind, from, to] of tokens) {
    if (to <= at || from >= end) continue;
    if (from > at && kind === "address") narrow(at, from, LEAD);
    else if (from > at && last === "address") narrow(at, from, GAP);
    else if (from > at) split("", at, from);
    last = kind;
    split(kind, Math.max(at, from), Math.min(to, end));
    at = Math.min(to, end);
  }
  if (at < end) split("", at, end);
  if (end < raw.length) add("cut", end, raw.length, ` … ${count(raw.length - end)} more characters`);
  return found.length ? marked(pieces, found) : pieces;
}

/** The columns that are drawn: the first ones, or those around the current match. */
function windowOf(raw, found) {
  const now = found.find((each) => each[2]);
  if (raw.length <= CODE_COLUMNS || !now || now[1] <= CODE_COLUMNS) return [0, Math.min(raw.length, CODE_COLUMNS)];
  const start = Math.max(0, now[0] - 200);
  return [start, Math.min(raw.length, start + CODE_COLUMNS)];
}

/** Long names and hidden characters in a part of a line: place, length, and what is shown for them. */
function replaced(text, from, isFull) {
  const made = [];
  if (!isFull && text.length > 48) {
    for (const { 0: name, index } of text.matchAll(LONG_NAMES)) {
      made.push([from + index, name.length, `${name.slice(0, KEPT_HEAD)}…${name.slice(-KEPT_TAIL)}`]);
    }
  }
  for (const { 0: char, index } of text.matchAll(HIDDEN)) {
    made.push([from + index, 1, `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`]);
  }
  return made.sort((a, b) => a[0] - b[0]);
}

/** The same pieces, cut where a match begins or ends. */
function marked(pieces, found) {
  const made = [];
  for (const piece of pieces) {
    let at = piece.from;
    for (const [from, to, isNow] of found) {
      if (to <= at || from >= piece.to) continue;
      if (!piece.isExact) {
        piece.mark = Math.max(piece.mark, isNow ? 2 : 1);
        continue;
      }
      const begin = Math.max(at, from), end = Math.min(piece.to, to);
      if (begin > at) made.push(part(piece, at, begin, 0));
      made.push(part(piece, begin, end, isNow ? 2 : 1));
      at = end;
    }
    if (!piece.isExact) made.push(piece);
    else if (at < piece.to) made.push(part(piece, at, piece.to, 0));
  }
  return made;
}

function part(piece, from, to, mark) {
  return { ...piece, from, to, mark, shown: piece.shown.slice(from - piece.from, to - piece.from) };
}

/** The column that a place in what is drawn of a piece stands for. */
export function columnIn(piece, offset) {
  if (piece.isExact) return piece.from + offset;
  const length = piece.to - piece.from;
  if (piece.kind === "cut" || piece.kind === "gap" || length < KEPT_HEAD) {
    return offset * 2 > piece.shown.length ? piece.to : piece.from;
  }
  return offset <= KEPT_HEAD ? piece.from + offset : piece.to - (piece.shown.length - offset);
}

/** Where each line starts, and past the end of the last one; a text's last end of line starts no line. */
function startsOf(text) {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  if (starts.length === 1 || starts[starts.length - 1] < text.length) starts.push(text.length + 1);
  return Float64Array.from(starts);
}
