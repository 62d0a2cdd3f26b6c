// Selected text over lines of which most are not in the page: the browser selects, this knows what it stands for.

import { closest } from "../shared/dom";
import type { CodeRows } from "./rows";
import { type CodePlace, type CodeText, type LineElement, columnAt } from "./text";

/** Where a selection begins or ends. */
interface End extends CodePlace {
  text: CodeText;
  row: HTMLElement;
}

export class CodeSelection {
  /** A selection of whole lines, with its first and last node in the page. */
  whole: { from: Node; to: Node; value: () => string } | null = null;
  private readonly changed: () => void;
  private readonly copy: (event: ClipboardEvent) => void;

  /** Select in what holds the rows; `copied` is told what was put into the clipboard. */
  constructor(
    private readonly body: HTMLElement, private readonly rows: CodeRows,
    private readonly copied: (text: string) => void,
  ) {
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
  private follow() {
    const ends = this.ends();
    this.rows.pin(ends ? ends.map(({ row }) => Number(row.dataset.item)) : []);
  }

  /** Both ends of the page's selection, if it is in here and not empty. */
  ends(): [End, End] | null {
    const selection = getSelection();
    if (!selection?.rangeCount || selection.isCollapsed) return null;
    const [one, other] = [
      this.place(selection.anchorNode, selection.anchorOffset), this.place(selection.focusNode, selection.focusOffset),
    ];
    return one && other && one.text === other.text ? [one, other] : null;
  }

  /** The text, line and column of a place in the page; null outside of the lines. */
  private place(node: Node | null, offset: number): End | null {
    if (!node || !this.body.contains(node)) return null;
    if (node === this.body) {
      const row = node.childNodes[Math.min(offset, node.childNodes.length - 1)];
      return row instanceof HTMLElement ? this.placeIn(row, row, offset < node.childNodes.length ? 0 : 1) : null;
    }
    const row = closest(node instanceof Element ? node : node.parentElement, ".ksc-row");
    return row && this.placeIn(row, node, offset);
  }

  private placeIn(row: HTMLElement, node: Node, offset: number): End | null {
    const codes = [...row.querySelectorAll<LineElement>(".ksc-code")];
    const code = codes.find((each) => each.contains(node)) ?? codes.find((each) => each.codePlace && isOpen(each));
    if (!code?.codePlace) return null;
    const { text, line, length } = code.codePlace;
    const isAfter = node === row ? offset > 0 : code.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    const column = code.contains(node) ? columnAt(code, node, offset) : isAfter ? length : 0;
    return { text, line, column, row };
  }

  /** What is selected here: of a selection made by `lines`, also what is folded or out of sight. */
  text(): string {
    const selection = getSelection();
    if (this.whole && selection?.anchorNode === this.whole.from && selection.focusNode === this.whole.to) {
      return this.whole.value();
    }
    const ends = this.ends();
    return ends ? ends[0].text.between(ends[0], ends[1]) : "";
  }

  private put(event: ClipboardEvent) {
    const text = this.text();
    if (!text) return;
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    this.copied(text);
  }

  /**
   * Select whole lines.
   *
   * @param to - The last one; what is folded under it counts.
   * @param itemOf - The item of the row that shows a line.
   */
  lines(text: CodeText, from: number, to: number, itemOf: (line: number) => number) {
    const items = [itemOf(from), itemOf(to)];
    this.rows.pin(items);
    this.rows.update();
    const [first, last] = items.map((item) => (
      [...this.rows.drawn.get(item)?.querySelectorAll<LineElement>(".ksc-code") ?? []]
        .find((each) => each.codePlace.text === text)));
    if (!first || !last) return;
    getSelection()?.setBaseAndExtent(first, 0, last, last.childNodes.length);
    this.whole = {
      from: first, to: last, value: () => text.text.slice(text.starts[from], text.starts[to + 1]),
    };
  }

  drop() {
    if (this.ends()) getSelection()?.removeAllRanges();
    this.whole = null;
  }
}

function isOpen(code: HTMLElement) { return getComputedStyle(code).userSelect !== "none"; }
