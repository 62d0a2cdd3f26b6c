// A code text by lines: where each begins, what its number is, what stands beside it, and how a line is drawn.

import { element } from "../shared/dom";
import { count } from "../shared/text";
import { type CodeStates, KIND_TITLES, tokensOf } from "./highlight";

/** What share of a whole a line has: as text, as the width of a bar from 0 to 1, and its parts by color. */
export interface LineShare {
  text: string;
  width: number;
  parts: [color: string, share: number][];
  title: string;
}

/** A column of shares: what they are of, and those of lines by index. */
export interface Shares {
  title: string;
  lines: Map<number, LineShare>;
}

/** A text as the views take it. */
export interface Content {
  text: string;
  language?: string;
  /** The number of the first line. */
  first?: number;
  name?: string;
  /** The source line that each line came from, 0 for none. */
  lines?: ArrayLike<number>;
  /** The numbers that are shown, 0 for none, where they are not those of the text's own lines. */
  labels?: ArrayLike<number>;
  /** What is to stand beside a line, by its number. */
  notes?: Record<number, string[]>;
  /** A bar before each line that has a share of something. */
  shares?: Shares;
}

/** A token: its kind, first column and end. */
export type Token = [kind: string, from: number, to: number];

/** Columns to mark, and whether they are the current match. */
export type Found = [from: number, to: number, isNow: boolean];

export interface CodePlace {
  line: number;
  column: number;
}

/** A piece of a line as it is drawn, and the columns that it stands for. */
export interface Piece {
  kind: string;
  from: number;
  to: number;
  shown: string;
  /** Whether what is drawn is the line's own text. */
  isExact: boolean;
  /** 0, 1 in a match, or 2 in the current one. */
  mark: number;
}

export class CodeText {
  readonly text: string;
  readonly language: string;
  readonly first: number;
  readonly name: string;
  readonly lines: ArrayLike<number> | null;
  readonly labels: ArrayLike<number> | null;
  readonly notes: Record<number, string[]> | null;
  readonly shares: Shares | null;
  /** Where each line starts, and past the end of the last one. */
  readonly starts: Float64Array;
  readonly count: number;
  readonly isLongNamed: boolean;

  constructor(content: Content) {
    this.text = String(content.text ?? "");
    this.language = LANGUAGES.includes(content.language ?? "") ? content.language ?? "" : "";
    this.first = content.first ?? 1;
    this.name = content.name ?? "";
    this.lines = content.lines ?? null;
    this.labels = content.labels ?? null;
    this.notes = content.notes ?? null;
    this.shares = content.shares ?? null;
    this.starts = startsOf(this.text);
    this.count = this.starts.length - 1;
    this.isLongNamed = LONG_NAME.test(this.text);
  }

  /** A line without its end. */
  line(index: number): string {
    const { starts, text } = this;
    let end = starts[index + 1] - 1;
    if (end > starts[index] && text.charCodeAt(end - 1) === 13) end -= 1;
    return text.slice(starts[index], end);
  }

  /** The index of the line that holds a place in the text. */
  lineAt(place: number) {
    let low = 0, high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** A line's number as it is shown, from its index, and the other way round. */
  number(index: number) { return index + this.first; }

  /** What is shown as a line's number. */
  label(index: number): string { return this.labels ? String(this.labels[index] || "") : String(this.number(index)); }

  index(number: number) { return number - this.first; }

  has(index: number) { return index >= 0 && index < this.count; }

  /** The source line that a line came from; 0 for none. */
  origin(index: number) { return this.lines?.[index] ?? 0; }

  notesOf(index: number): string[] | null { return this.notes?.[this.number(index)] ?? null; }

  /** The text between two places, each a line and a column; whichever comes first. */
  between(one: CodePlace, other: CodePlace) {
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
 * @param isFull - Whether long names are shown in full.
 */
export function piecesOf(raw: string, tokens: Token[], isFull: boolean, found: Found[]): Piece[] {
  const [start, end] = windowOf(raw, found), pieces: Piece[] = [];
  const add = (kind: string, from: number, to: number, shown?: string) => pieces.push({
    kind, from, to, shown: shown ?? raw.slice(from, to), isExact: shown === undefined, mark: 0,
  });
  const split = (kind: string, from: number, to: number) => {
    let at = from;
    for (const [place, length, shown] of replaced(raw.slice(from, to), from, isFull)) {
      if (place > at) add(kind, at, place);
      add(kind, place, place + length, shown);
      at = place + length;
    }
    if (to > at) add(kind, at, to);
  };
  const narrow = (from: number, to: number, by: number) => {
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
function windowOf(raw: string, found: Found[]): [number, number] {
  const now = found.find((each) => each[2]);
  if (raw.length <= CODE_COLUMNS || !now || now[1] <= CODE_COLUMNS) return [0, Math.min(raw.length, CODE_COLUMNS)];
  const start = Math.max(0, now[0] - 200);
  return [start, Math.min(raw.length, start + CODE_COLUMNS)];
}

/** Long names and hidden characters in a part of a line: place, length, and what is shown for them. */
function replaced(text: string, from: number, isFull: boolean) {
  const made: [place: number, length: number, shown: string][] = [];
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
function marked(pieces: Piece[], found: Found[]) {
  const made: Piece[] = [];
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

function part(piece: Piece, from: number, to: number, mark: number): Piece {
  return { ...piece, from, to, mark, shown: piece.shown.slice(from - piece.from, to - piece.from) };
}

/** The column that a place in what is drawn of a piece stands for. */
export function columnIn(piece: Piece, offset: number): number {
  if (piece.isExact) return piece.from + offset;
  const length = piece.to - piece.from;
  if (piece.kind === "cut" || piece.kind === "gap" || length < KEPT_HEAD) {
    return offset * 2 > piece.shown.length ? piece.to : piece.from;
  }
  return offset <= KEPT_HEAD ? piece.from + offset : piece.to - (piece.shown.length - offset);
}

/** Where each line starts, and past the end of the last one; a text's last end of line starts no line. */
function startsOf(text: string) {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  if (starts.length === 1 || starts[starts.length - 1] < text.length) starts.push(text.length + 1);
  return Float64Array.from(starts);
}

/** A line's element, and what is drawn in it. */
export interface LineElement extends HTMLElement {
  codePlace: { text: CodeText; line: number; length: number; pieces: (Piece & { node: Text })[] };
}

const MARKS = ["ksc-found", "ksc-found ksc-now"];

/**
 * Draw a line. Its texts are text nodes only, so that nothing in them is ever read as HTML.
 *
 * @param how - States of strings over several lines; whether long names are in full; columns to mark, and the classes
 *   of a mark and of the current one.
 */
export function lineElement(text: CodeText, line: number, { states, isFull, found = [], marks = MARKS }: {
  states: CodeStates; isFull: boolean; found?: Found[]; marks?: readonly string[];
}): LineElement {
  const raw = text.line(line), { tokens } = tokensOf(text.language, raw, states.at(line));
  const pieces = piecesOf(raw, tokens, isFull, found).map((each) => (
    { ...each, node: document.createTextNode(each.shown) }));
  const made = element("code", "ksc-code", ...pieces.map((piece) => (
    piece.kind || piece.mark || !piece.isExact ? wrapped(piece, piece.node, raw, marks) : piece.node)));
  made.dir = "ltr";
  return Object.assign(made, { codePlace: { text, line, pieces, length: raw.length } });
}

function wrapped(piece: Piece, node: Node, raw: string, marks: readonly string[]): HTMLElement {
  const names = piece.kind ? [`ksc-${piece.kind}`] : [];
  if (piece.mark) names.push(marks[piece.mark - 1]);
  const isReplaced = !piece.isExact && piece.kind !== "cut" && piece.kind !== "gap";
  const isName = isReplaced && piece.to - piece.from > 1;
  if (isReplaced) names.push(isName ? "ksc-short" : "ksc-odd");
  const span = element("span", names.join(" "), node);
  if (isName) span.title = raw.slice(piece.from, piece.to);
  else if (KIND_TITLES[piece.kind]) span.title = KIND_TITLES[piece.kind];
  return span;
}

/** Columns that a line takes when drawn, a tab being up to eight. */
export function widthOf(made: LineElement): number {
  let width = 0;
  for (const { shown } of made.codePlace.pieces) {
    width += shown.length;
    for (let at = shown.indexOf("\t"); at >= 0; at = shown.indexOf("\t", at + 1)) width += 7;
  }
  return width;
}

/** The column that a place in the page stands for: a node in a line's element, and an offset in it. */
export function columnAt(made: LineElement, node: Node, offset: number): number {
  const { pieces, length } = made.codePlace;
  for (const piece of pieces) {
    if (piece.node === node) return columnIn(piece, offset);
    if (piece.node.parentNode === node && node !== made) return offset ? piece.to : piece.from;
  }
  if (node !== made) return 0;
  const child: Node | undefined = made.childNodes[offset];
  const piece = child && pieces.find((each) => each.node === child || each.node.parentNode === child);
  return piece ? piece.from : offset ? length : 0;
}
