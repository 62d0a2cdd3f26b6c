// What part of the picture is seen: pan and zoom, by mouse, wheel and touch.

import { type Undoing, closest } from "../shared/dom";
import type { Frame } from "./place";

const LEAST = 0.02, MOST = 2.5;
// A whole picture that would be smaller than this is shown from its beginning, at the size below.
const READABLE = 0.55, COMFORTABLE = 0.75;
const MARGIN = 18;
const CLICK = 4;
// Below these scales texts are too small to be read, and are not drawn.
const FAR = 0.45, FARTHEST = 0.2;

interface Size {
  width: number;
  height: number;
}

export class Sight {
  x = 0;
  y = 0;
  scale = 1;
  size: Size = { width: 1, height: 1 };

  /** What is seen in an element; `moved` is called when that changes. */
  constructor(private readonly body: HTMLElement, private readonly moved: () => void) {}

  get width() { return this.body.clientWidth || 1; }

  get height() { return this.body.clientHeight || 1; }

  /** The scale at which all is seen. */
  get fitting() {
    return Math.min(1, (this.width - 2 * MARGIN) / this.size.width, (this.height - 2 * MARGIN) / this.size.height);
  }

  /** How high the body is to be for a picture of this size, so that all of it is seen where that can be. */
  static heightOf({ width, height }: Size, wide: number, most: number): number {
    const scale = Math.max(Math.min(1, (wide - 2 * MARGIN) / width), READABLE);
    return Math.round(Math.min(Math.max(height * scale + 2 * MARGIN, 120), most));
  }

  /** Show all of it, however small. */
  fit() { this.center(Math.max(this.fitting, LEAST)); }

  /** Show all of it if it can be read then, and else its beginning: the frame of its first node. */
  begin(first: Frame) {
    if (this.fitting >= READABLE) {
      this.fit();
      return;
    }
    this.scale = Math.min(1, Math.max(COMFORTABLE, (this.width - 2 * MARGIN) / this.size.width));
    const wide = this.size.width * this.scale, high = this.size.height * this.scale;
    const middle = this.width / 2 - (first.x + first.width / 2) * this.scale;
    this.x = wide < this.width ? (this.width - wide) / 2
      : Math.min(Math.max(middle, this.width - wide - MARGIN), MARGIN);
    this.y = high < this.height ? (this.height - high) / 2 : MARGIN;
    this.moved();
  }

  center(scale: number) {
    this.scale = scale;
    this.x = (this.width - this.size.width * scale) / 2;
    this.y = (this.height - this.size.height * scale) / 2;
    this.moved();
  }

  zoom(factor: number, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, Math.min(LEAST, this.fitting)), MOST), by = scale / this.scale;
    [this.x, this.y, this.scale] = [x - (x - this.x) * by, y - (y - this.y) * by, scale];
    this.keep();
  }

  pan(dx: number, dy: number) {
    this.x += dx;
    this.y += dy;
    this.keep();
  }

  /** Some of the picture stays in view. */
  private keep() {
    const wide = this.size.width * this.scale, high = this.size.height * this.scale, least = 60;
    this.x = Math.min(Math.max(this.x, least - wide), this.width - least);
    this.y = Math.min(Math.max(this.y, least - high), this.height - least);
    this.moved();
  }

  /** Bring a frame into view: not at all where it is seen and can be read already. */
  reveal(frame: Frame) {
    if (this.scale < READABLE) this.scale = READABLE;
    const left = this.x + frame.x * this.scale, top = this.y + frame.y * this.scale;
    const right = left + frame.width * this.scale, bottom = top + Math.min(frame.height, 90) * this.scale;
    if (left < MARGIN || right > this.width - MARGIN) this.x += this.width / 2 - (left + right) / 2;
    if (top < MARGIN || bottom > this.height - MARGIN) this.y += this.height / 2 - (top + bottom) / 2;
    this.keep();
  }

  /** What is seen of the picture, and a little around it: left, top, right and bottom. */
  get part(): [left: number, top: number, right: number, bottom: number] {
    const { x, y, scale, width, height } = this, more = 200;
    return [(-x - more) / scale, (-y - more) / scale, (width - x + more) / scale, (height - y + more) / scale];
  }

  get farness() { return this.scale < FARTHEST ? 2 : this.scale < FAR ? 1 : 0; }

  get transform() { return `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)}) scale(${this.scale.toFixed(4)})`; }
}

/** What the pointer does: a click, a double click, and what it is over, with its place. */
interface Pointed {
  clicked: (target: EventTarget | null) => void;
  doubled: (target: EventTarget | null) => void;
  hovered: (target: EventTarget | null, x: number, y: number) => void;
}

type Point = [x: number, y: number];

/** Follow drags, wheels and clicks of a body. */
export function followPointer(
  body: HTMLElement, sight: Sight, undoing: Undoing, { clicked, doubled, hovered }: Pointed,
): void {
  const down = new Map<number, Point>();
  let drag: { at: Point; from: Point; target: EventTarget | null; hasMoved: boolean } | null = null;
  const place = (event: MouseEvent): Point => {
    const box = body.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  undoing.listen(body, "pointerdown", (event) => {
    if (event.button || closest(event.target, ".ksg-facts")) return;
    down.set(event.pointerId, place(event));
    drag = { at: place(event), from: place(event), target: event.target, hasMoved: down.size > 1 };
    body.focus({ preventScroll: true });
    body.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  undoing.listen(body, "pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) {
      hovered(event.target, x, y);
      return;
    }
    if (down.size === 2 && down.has(event.pointerId)) pinch(down, event.pointerId, [x, y], sight);
    drag.hasMoved ||= Math.abs(x - drag.from[0]) + Math.abs(y - drag.from[1]) > CLICK;
    if (drag.hasMoved && down.size === 1) {
      sight.pan(x - drag.at[0], y - drag.at[1]);
      body.classList.add("ksg-dragged");
      hovered(null, x, y);
    }
    drag.at = [x, y];
    down.set(event.pointerId, [x, y]);
  });
  const end = (event: PointerEvent) => {
    down.delete(event.pointerId);
    if (!drag || down.size) return;
    const { hasMoved, target } = drag;
    drag = null;
    body.classList.remove("ksg-dragged");
    if (!hasMoved && event.type === "pointerup") clicked(target);
  };
  undoing.listen(body, "pointerup", end);
  undoing.listen(body, "pointercancel", end);
  undoing.listen(body, "pointerleave", () => hovered(null, 0, 0));
  undoing.listen(body, "dblclick", (event) => doubled(document.elementFromPoint(event.clientX, event.clientY)));
  undoing.listen(body, "wheel", (event) => {
    // A page scrolls over a picture that is not being used.
    const isUsed = body.matches(":focus, :focus-within") || event.ctrlKey || event.metaKey;
    if (!isUsed || closest(event.target, ".ksg-facts")) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) sight.pan(-(event.deltaY || event.deltaX) * lines, 0);
    else sight.zoom(Math.exp(-Math.min(Math.max(event.deltaY * lines, -240), 240) * 0.0022), ...place(event));
  }, { passive: false });
}

/** Two fingers: what is between them stays there. */
function pinch(down: Map<number, Point>, moved: number, now: Point, sight: Sight) {
  const other = [...down].find(([id]) => id !== moved)?.[1], before = down.get(moved);
  if (!other || !before) return;
  const apart = (a: Point, b: Point) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
  sight.zoom(apart(now, other) / apart(before, other), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
}
