// What the view of a code and a comparison of two share: rows that scroll beside a strip, folds, a selection, a theme.

import { Undoing, button, element, focusable, keepShortcutsAway, liveRegion } from "../shared/dom";
import { count, counted } from "../shared/text";
import type { CodeFolds } from "./folds";
import { CodeRows, CodeStrip, followGround } from "./rows";
import { CodeSelection } from "./select";

/** Rows that are seen of a longer text until it is unfolded to the height of the window. */
const ROWS = 28;

export abstract class CodeFrame {
  readonly element = element("div", "ksc");
  readonly body = element("div", "ksc-lines");
  readonly scroller = element("div", "ksc-scroll", this.body);
  readonly strip = new CodeStrip(this.scroller);
  readonly live = liveRegion("ksc-live");
  readonly more = button("ksc-button ksc-more", "", "", () => this.stretch());
  /** The scroller with its strip. */
  protected readonly scrolled = element("div", "ksc-frame", this.scroller, this.strip.element);
  readonly rows = new CodeRows(this.scroller, this.body, (item) => this.draw(item));
  readonly selection = new CodeSelection(this.body, this.rows, (text) => this.say(`copied ${linesIn(text)}`));
  folds!: CodeFolds;
  /** Whether long names are in full. */
  isFull = false;
  /** The keyboard's line, or its row of two. */
  cursor = 0;
  /** The widest line that was drawn, in columns. */
  widest = 0;
  protected readonly undoing = new Undoing();

  constructor(host: HTMLElement, readonly id: string, protected readonly notice: (text: string) => void) {
    focusable(this.scroller).setAttribute("role", "listbox");
    this.element.setAttribute("role", "region");
    keepShortcutsAway(this.element);
    host.append(this.element);
    const repaint = new MutationObserver(() => this.strip.paint());
    repaint.observe(this.element, { attributes: true, attributeFilter: ["class"] });
    this.undoing.add(() => this.rows.destroy(), () => this.strip.destroy(), () => this.selection.destroy(),
      followGround(this.element), () => repaint.disconnect());
  }

  /** The row of an item. */
  protected abstract draw(item: number): HTMLElement;
  /** Style a row by what is chosen and marked. */
  protected abstract style(row: HTMLElement, item: number): void;
  /** Lay the rows anew, after a fold or a new text, and draw what is marked. */
  protected abstract laid(): void;
  /** Say what was done. */
  abstract say(text: string): void;

  /** Lay the rows anew; a long text, of which `of` says how long it is, can be unfolded to the window's height. */
  protected lay(of = "") {
    const { folds, more } = this, isTall = this.element.classList.contains("ksc-tall");
    this.rows.set(folds.rows, (item) => (folds.isSeen(item) ? folds.rowOf(item) : -1));
    more.hidden = folds.rows.length <= ROWS;
    more.textContent = isTall ? "Show less" : `Show more${of}`;
    more.setAttribute("aria-expanded", String(isTall));
  }

  protected restyle() {
    for (const [item, row] of this.rows.drawn) this.style(row, item);
    this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.cursor}`);
  }

  /** Rows after folds changed. */
  protected refold() {
    this.rows.redraw();
    this.laid();
  }

  foldAll(isFolded: boolean) {
    if (isFolded) this.folds.foldAll();
    else this.folds.openAll();
    this.refold();
    this.rows.reveal(this.folds.rowOf(this.cursor));
  }

  /** How many rows a page has. */
  page() {
    const [first, last] = this.rows.sight();
    return Math.max(1, last - first - 2);
  }

  private stretch() {
    this.element.classList.toggle("ksc-tall");
    this.laid();
    this.rows.update();
    this.element.scrollIntoView({ block: "nearest" });
  }

  focus() { this.scroller.focus({ preventScroll: true }); }

  /** Tell what is around that an Escape had nothing to let go; the key itself stays inside. */
  leave() { this.element.dispatchEvent(new CustomEvent("ksc-leave", { bubbles: true })); }

  destroy() {
    this.undoing.run();
    this.element.remove();
  }
}

function linesIn(text: string) {
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return lines > 1 ? counted(lines, "line") : `${count(text.length)} characters`;
}
