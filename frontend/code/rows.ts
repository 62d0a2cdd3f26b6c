// Rows of one height in a scrolling element, of which only those in sight are in the page.

import { contextOf, element, followTheme } from "../shared/dom";

/** Height of a row, in CSS pixels; the style sheet says the same. */
export const CODE_ROW = 18;
const SPARE = 12;

export class CodeRows {
  /** Elements of the rows that are in the page, by item. */
  readonly drawn = new Map<number, HTMLElement>();
  private items = new Int32Array(0);
  private rowOf: (item: number) => number = () => -1;
  private pinned: number[] = [];
  private readonly sized: ResizeObserver;

  /** Show rows in `body`, which lies in what scrolls; `draw` makes the row of an item. */
  constructor(
    private readonly scroller: HTMLElement, private readonly body: HTMLElement,
    private readonly draw: (item: number) => HTMLElement,
  ) {
    scroller.addEventListener("scroll", () => this.update(), { passive: true });
    this.sized = new ResizeObserver(() => this.update());
    this.sized.observe(scroller);
  }

  /** Show these items, in this order; `rowOf` tells an item's row, -1 where it has none. */
  set(items: Int32Array, rowOf: (item: number) => number) {
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
  pin(items: number[]) { this.pinned = items; }

  /** The first row and the row after the last one of those in sight. */
  sight(): [number, number] {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    return [Math.floor(top / CODE_ROW), Math.min(this.items.length, Math.ceil((top + height) / CODE_ROW))];
  }

  update(): void {
    const [first, last] = this.sight();
    const from = Math.max(0, first - SPARE), to = Math.min(this.items.length, last + SPARE);
    const rows: number[] = [];
    for (const item of this.pinned) {
      const row = this.rowOf(item);
      if (row >= 0 && (row < from || row >= to) && this.items[row] === item) rows.push(row);
    }
    for (let row = from; row < to; row++) rows.push(row);
    if (this.pinned.length) rows.sort((a, b) => a - b);
    const wanted = new Set(rows.map((row) => this.items[row]));
    for (const [item, made] of this.drawn) {
      if (wanted.has(item)) continue;
      made.remove();
      this.drawn.delete(item);
    }
    let next: ChildNode | null = this.body.firstChild;
    for (const row of rows) {
      const item = this.items[row];
      let made = this.drawn.get(item);
      if (!made) {
        made = this.draw(item);
        this.drawn.set(item, made);
      }
      const top = `${row * CODE_ROW}px`;
      if (made.style.top !== top) made.style.top = top;
      // A selection reads rows in their order in the page.
      if (made === next) next = next.nextSibling;
      else this.body.insertBefore(made, next);
    }
  }

  /** Bring a row into sight: into the middle if it is out of sight, and then only as far as needed if `isNear`. */
  reveal(row: number, isNear = false) {
    const { scroller } = this, top = row * CODE_ROW, { scrollTop: at, clientHeight: height } = scroller;
    if (top >= at && top + CODE_ROW <= at + height) return;
    scroller.scrollTop = !isNear ? top - (height - CODE_ROW) / 2 : top < at ? top : top + CODE_ROW - height;
    this.update();
  }

  destroy() { this.sized.disconnect(); }
}

// ---- The strip beside the code: where in all of it marks and matches are, and where the part in sight is.

/** The custom property that holds a color, and the rows that have it. */
export type Ticks = [color: string, rows: Iterable<number>];

const WIDTH = 12;

export class CodeStrip {
  readonly element: HTMLElement;
  private readonly thumb = element("div", "ksc-thumb");
  private readonly picture = element("canvas", "");
  private shown: { rows: number; kinds: Ticks[] } = { rows: 0, kinds: [] };
  private readonly sized: ResizeObserver;

  /** Stand for what scrolls. */
  constructor(private readonly scroller: HTMLElement) {
    this.element = element("div", "ksc-strip", this.picture, this.thumb);
    // The keys that scroll, and those that step through matches, do the same.
    this.element.setAttribute("aria-hidden", "true");
    const go = (event: PointerEvent) => {
      const box = this.element.getBoundingClientRect();
      scroller.scrollTop = (event.clientY - box.top) / box.height * scroller.scrollHeight - scroller.clientHeight / 2;
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.element.setPointerCapture(event.pointerId);
      go(event);
      event.preventDefault();
    });
    this.element.addEventListener("pointermove", (event) => { if (event.buttons & 1) go(event); });
    scroller.addEventListener("scroll", () => this.move(), { passive: true });
    this.sized = new ResizeObserver(() => this.paint());
    this.sized.observe(this.element);
  }

  destroy() { this.sized.disconnect(); }

  /** Show marks among so many rows; later kinds lie on top. */
  show(rows: number, kinds: Ticks[]) {
    this.shown = { rows, kinds };
    this.paint();
  }

  /** Draw all marks, in the colors that the theme has now. */
  paint() {
    const { rows, kinds } = this.shown, height = Math.round(this.element.clientHeight), dpr = devicePixelRatio || 1;
    const used = Math.min(height, rows * CODE_ROW), colors = getComputedStyle(this.element);
    Object.assign(this.picture, { width: Math.round(WIDTH * dpr), height: Math.round(height * dpr) });
    this.picture.style.height = `${height}px`;
    const context = contextOf(this.picture);
    context.scale(dpr, dpr);
    for (const [color, places] of kinds) {
      const ticks = new Set<number>(), tickOf = (row: number) => Math.floor((row + 0.5) / rows * used - 1);
      for (const row of places) ticks.add(Math.min(height - 3, tickOf(row)));
      context.fillStyle = colors.getPropertyValue(color).trim();
      for (const y of ticks) context.fillRect(1, Math.max(0, y), WIDTH - 2, 3);
    }
    this.move();
  }

  move() {
    const { scrollTop: at, clientHeight: seen, scrollHeight: all } = this.scroller, height = this.element.clientHeight;
    this.thumb.hidden = all <= seen + 1;
    this.thumb.style.transform = `translateY(${at / all * height}px)`;
    this.thumb.style.height = `${Math.max(6, seen / all * height)}px`;
  }
}

// ---- The ground that code lies on ----

/**
 * Keep the class `ksc-on-dark` on an element for as long as its ground is dark, whatever made it so. Returns the end.
 */
export function followGround(root: HTMLElement): () => void {
  const read = () => { root.classList.toggle("ksc-on-dark", lightnessUnder(root) < 128); };
  // An element that is put into the page only later has no ground before.
  const sized = new ResizeObserver(read), unfollow = followTheme(read);
  sized.observe(root);
  read();
  return () => {
    sized.disconnect();
    unfollow();
  };
}

/** How light the ground of an element is, from 0 to 255: its own, or what is seen through it. */
function lightnessUnder(root: HTMLElement): number {
  for (let each: HTMLElement | null = root; each; each = each.parentElement) {
    const ground = getComputedStyle(each).backgroundColor, scale = ground.startsWith("color(") ? 255 : 1;
    const numbers = ground.replace(/^color\(\S+/, "").match(/[\d.e-]+/g) ?? [0, 0, 0, 0];
    const [red, green, blue, alpha = 1] = numbers.map(Number);
    if (alpha) return scale * (0.299 * red + 0.587 * green + 0.114 * blue);
  }
  return 255;
}
