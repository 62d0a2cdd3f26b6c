// Rows of one height in a scrolling element, of which only those in sight are in the page.

/** Height of a row, in CSS pixels; the style sheet says the same. */
export const CODE_ROW = 18;
const SPARE = 12;

export class CodeRows {
  /**
   * @param {HTMLElement} scroller - What scrolls.
   * @param {HTMLElement} body - What holds the rows, in it.
   * @param {(item: number) => HTMLElement} draw - Makes the row of an item.
   */
  constructor(scroller, body, draw) {
    Object.assign(this, { scroller, body, draw });
    this.items = new Int32Array(0);
    this.rowOf = () => -1;
    this.drawn = new Map();
    this.pinned = [];
    scroller.addEventListener("scroll", () => this.update(), { passive: true });
    this.sized = new ResizeObserver(() => this.update());
    this.sized.observe(scroller);
  }

  /** Show these items, in this order; `rowOf` tells an item's row, -1 where it has none. */
  set(items, rowOf) {
    Object.assign(this, { items, rowOf });
    this.body.style.height = `${items.length * CODE_ROW}px`;
    this.update();
  }

  /** Draw all rows anew. */
  redraw() {
    this.clear();
    this.update();
  }

  clear() {
    this.body.replaceChildren();
    this.drawn.clear();
  }

  /** Keep these items in the page while they are out of sight: a selection begins or ends in them. */
  pin(items) { this.pinned = items; }

  /** The first row and the row after the last one of those in sight. */
  sight() {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    return [Math.floor(top / CODE_ROW), Math.min(this.items.length, Math.ceil((top + height) / CODE_ROW))];
  }

  update() {
    const [first, last] = this.sight();
    const from = Math.max(0, first - SPARE), to = Math.min(this.items.length, last + SPARE);
    const rows = [];
    for (const item of this.pinned) {
      const row = this.rowOf(item);
      if (row >= 0 && (row < from || row >= to) && this.items[row] === item) rows.push(row);
    }
    for (let row = from; row < to; row++) rows.push(row);
    if (this.pinned.length) rows.sort((a, b) => a - b);
    const wanted = new Set(rows.map((row) => this.items[row]));
    for (const [item, element] of this.drawn) {
      if (wanted.has(item)) continue;
      element.remove();
      this.drawn.delete(item);
    }
    let next = this.body.firstChild;
    for (const row of rows) {
      const item = this.items[row];
      let element = this.drawn.get(item);
      if (!element) {
        element = this.draw(item);
        this.drawn.set(item, element);
      }
      const top = `${row * CODE_ROW}px`;
      if (element.style.top !== top) element.style.top = top;
      // A selection reads rows in their order in the page.
      if (element === next) next = next.nextSibling;
      else this.body.insertBefore(element, next);
    }
  }

  /** Bring a row into sight: into the middle if it is out of sight, and then only as far as needed if `isNear`. */
  reveal(row, isNear = false) {
    const { scroller } = this, top = row * CODE_ROW, { scrollTop: at, clientHeight: height } = scroller;
    if (top >= at && top + CODE_ROW <= at + height) return;
    scroller.scrollTop = !isNear ? top - (height - CODE_ROW) / 2 : top < at ? top : top + CODE_ROW - height;
    this.update();
  }

  destroy() { this.sized.disconnect(); }
}
