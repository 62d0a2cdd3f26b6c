// One line of code as an element, and the way back from a place in it to the line's columns.

import { codeNode } from "./code_dom.js";
import { KIND_TITLES, tokensOf } from "./code_highlight.js";
import { columnIn, piecesOf } from "./code_text.js";

const MARKS = ["ksc-found", "ksc-found ksc-now"];

/**
 * Draw a line. Its texts are text nodes only, so that nothing in them is ever read as HTML.
 *
 * @param {CodeText} text
 * @param {number} line - Its index.
 * @param {{states: CodeStates, isFull: boolean, found?: Array<[number, number, boolean]>, marks?: string[]}} how -
 *   States of strings over several lines; whether long names are in full; columns to mark, and the classes of a mark
 *   and of the current one.
 * @returns {HTMLElement} With `codePlace`: the text, the line, and the pieces.
 */
export function lineElement(text, line, { states, isFull, found = [], marks = MARKS }) {
  const raw = text.line(line), element = codeNode("code", "ksc-code");
  const { tokens } = tokensOf(text.language, raw, states.at(line));
  const pieces = piecesOf(raw, tokens, isFull, found);
  for (const piece of pieces) {
    const node = document.createTextNode(piece.shown);
    piece.node = node;
    element.append(piece.kind || piece.mark || !piece.isExact ? wrapped(piece, node, raw, marks) : node);
  }
  element.dir = "ltr";
  element.codePlace = { text, line, pieces, length: raw.length };
  return element;
}

function wrapped(piece, node, raw, marks) {
  const names = piece.kind ? [`ksc-${piece.kind}`] : [];
  if (piece.mark) names.push(marks[piece.mark - 1]);
  const isReplaced = !piece.isExact && piece.kind !== "cut" && piece.kind !== "gap";
  const isName = isReplaced && piece.to - piece.from > 1;
  if (isReplaced) names.push(isName ? "ksc-short" : "ksc-odd");
  const span = codeNode("span", names.join(" "), node);
  if (isName) span.title = raw.slice(piece.from, piece.to);
  else if (KIND_TITLES[piece.kind]) span.title = KIND_TITLES[piece.kind];
  return span;
}

/** Columns that a line takes when drawn, a tab being up to eight. */
export function widthOf(element) {
  let width = 0;
  for (const { shown } of element.codePlace.pieces) {
    width += shown.length;
    for (let at = shown.indexOf("\t"); at >= 0; at = shown.indexOf("\t", at + 1)) width += 7;
  }
  return width;
}

/** The column that a place in the page stands for: a node in a line's element, and an offset in it. */
export function columnAt(element, node, offset) {
  const { pieces, length } = element.codePlace;
  for (const piece of pieces) {
    if (piece.node === node) return columnIn(piece, offset);
    if (piece.node.parentNode === node && node !== element) return offset ? piece.to : piece.from;
  }
  if (node !== element) return 0;
  const child = element.childNodes[offset];
  const piece = child && pieces.find((each) => each.node === child || each.node.parentNode === child);
  return piece ? piece.from : offset ? length : 0;
}
