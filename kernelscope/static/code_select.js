// Selected text over lines of which most are not in the page: the browser selects, this knows what it stands for.

import { columnAt } from "./code_line.js";

export class CodeSelection {
  /**
   * @param {HTMLElement} body - What holds the rows.
   * @param {CodeRows} rows
   * @param {(text: string, lines: number) => void} copied - Told what was put into the clipboard.
   */
  constructor(body, rows, copied) {
    Object.assign(this, { body, rows, copied });
    this.whole = null;
    this.changed = () => this.follow();
    document.addEventListener("selectionchange", this.changed);
    // Listened to at the document: what has the focus, and so gets the event, need not be what is selected in.
    this.copy = (event) => this.put(event);
    document.addEventListener("copy", this.copy, true);
  }

  destroy() {
    document.removeEventListener("selectionchange", this.changed);
    document.removeEventListener("copy", this.copy, true);
  }

  /** Keep the rows in which a selection begins and ends in the page. */
  follow() {
    const ends = this.ends();
    this.rows.pin(ends ? ends.map(({ row }) => Number(row.dataset.item)) : []);
  }

  /** Both ends of the page's selection, if it is in here and not empty. */
  ends() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const ends = [
      this.place(selection.anchorNode, selection.anchorOffset), this.place(selection.focusNode, selection.focusOffset),
    ];
    return ends.every(Boolean) && ends[0].text === ends[1].text ? ends : null;
  }

  /** The text, line and column of a place in the page; null outside of the lines. */
  place(node, offset) {
    if (!node || !this.body.contains(node)) return null;
    if (node === this.body) {
      const row = node.childNodes[Math.min(offset, node.childNodes.length - 1)];
      return row ? this.placeIn(row, row, offset < node.childNodes.length ? 0 : 1) : null;
    }
    const row = (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement).closest(".ksc-row");
    return row && this.placeIn(row, node, offset);
  }

  placeIn(row, node, offset) {
    const codes = [...row.querySelectorAll(".ksc-code")];
    const code = codes.find((each) => each.contains(node)) ?? codes.find((each) => each.codePlace && isOpen(each));
    if (!code?.codePlace) return null;
    const { text, line, length } = code.codePlace;
    const isAfter = node === row ? offset > 0 : code.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    const column = code.contains(node) ? columnAt(code, node, offset) : isAfter ? length : 0;
    return { text, line, column, row };
  }

  /** What is selected here: of a selection made by `lines`, also what is folded or out of sight. */
  text() {
    const selection = getSelection();
    if (this.whole && this.isWhole(selection)) return this.whole.value();
    const ends = this.ends();
    return ends ? ends[0].text.between(ends[0], ends[1]) : "";
  }

  isWhole({ anchorNode, focusNode }) { return anchorNode === this.whole.from && focusNode === this.whole.to; }

  put(event) {
    const text = this.text();
    if (!text) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
    this.copied(text);
  }

  /**
   * Select whole lines.
   *
   * @param {CodeText} text
   * @param {number} from - First line, as an index.
   * @param {number} to - Last line; what is folded under it counts.
   * @param {(line: number) => number} itemOf - The item of the row that shows a line.
   */
  lines(text, from, to, itemOf) {
    const items = [itemOf(from), itemOf(to)];
    this.rows.pin(items);
    this.rows.update();
    const [first, last] = items.map((item) => [...this.rows.drawn.get(item).querySelectorAll(".ksc-code")]
      .find((each) => each.codePlace?.text === text));
    getSelection().setBaseAndExtent(first, 0, last, last.childNodes.length);
    this.whole = {
      from: first, to: last, value: () => text.text.slice(text.starts[from], text.starts[to + 1]),
    };
  }

  drop() {
    if (this.ends()) getSelection().removeAllRanges();
    this.whole = null;
  }
}

function isOpen(code) { return getComputedStyle(code).userSelect !== "none"; }
