// The strip beside the code: where in all of it marks and matches are, and where the part in sight is.

import { CODE_ROW } from "./code_rows.js";
import { codeNode } from "./code_dom.js";

const WIDTH = 12;

export class CodeStrip {
  /** @param {HTMLElement} scroller - What it stands for. */
  constructor(scroller) {
    this.scroller = scroller;
    this.thumb = codeNode("div", "ksc-thumb");
    this.picture = codeNode("canvas", "");
    this.element = codeNode("div", "ksc-strip", this.picture, this.thumb);
    // The keys that scroll, and those that step through matches, do the same.
    this.element.setAttribute("aria-hidden", "true");
    this.shown = { rows: 0, kinds: [] };
    const go = (event) => {
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

  /**
   * Show marks.
   *
   * @param {number} rows - How many rows there are in all.
   * @param {Array<[string, Iterable<number>]>} kinds - Custom properties that hold colors, and rows of each; later ones
   *   lie on top.
   */
  show(rows, kinds) {
    this.shown = { rows, kinds };
    this.paint();
  }

  /** Draw all marks, in the colors that the theme has now. */
  paint() {
    const { rows, kinds } = this.shown, height = Math.round(this.element.clientHeight), dpr = devicePixelRatio || 1;
    const used = Math.min(height, rows * CODE_ROW), colors = getComputedStyle(this.element);
    Object.assign(this.picture, { width: Math.round(WIDTH * dpr), height: Math.round(height * dpr) });
    this.picture.style.height = `${height}px`;
    const context = this.picture.getContext("2d");
    context.scale(dpr, dpr);
    for (const [color, places] of kinds) {
      const ticks = new Set(), tickOf = (row) => Math.floor((row + 0.5) / rows * used - 1);
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
