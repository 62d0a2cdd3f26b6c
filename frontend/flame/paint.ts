// Draws the rows of a flame graph on a canvas: what is narrower than a pixel is drawn together with its neighbours.

import { FRAME_COLORS } from "../shared/generated";
import { Theme } from "../shared/theme";
import type { Layout, Tree } from "./tree";

export const ROW = 19;
const COLORS = Object.values(FRAME_COLORS);
/** The whole, then those that have colors. */
const KINDS = ["all", ...Object.keys(FRAME_COLORS)];
/** The least room for a name, and what is beside it. */
const [LEAST, BESIDE] = [22, 8];

export interface Sight {
  layout: Layout;
  metric: string;
  /** The part of the whole that is as wide as the canvas, and the node that it is of. */
  from: number;
  to: number;
  zoomed: number;
  width: number;
  height: number;
  scroll: number;
  dpr: number;
  found: Uint8Array | null;
  hovered: number;
  chosen: number;
}

/** What is filled with one color: x, y, width and height of each. */
interface Batch {
  fill: string;
  alpha: number;
  boxes: number[];
}

interface Batches { plain: Batch[]; faint: Batch[]; merged: Batch; mergedFound: Batch; mark: Batch }

export class Painter {
  readonly theme: Theme;
  private letter = 0;
  private font = "";
  /** By kind of frame: as it is, and faint; then what else there is. The context's color changes once for each. */
  private batches: Batches | null = null;
  /** Each node's kind, and the texts of a frame: with their colors, x and y. */
  private readonly kinds: Uint8Array;
  private readonly texts = new Map<string, [text: string, x: number, y: number][]>();

  constructor(private readonly tree: Tree, root: HTMLElement) {
    this.theme = new Theme(root);
    const kinds = tree.frames.map(({ kind }) => KINDS.indexOf(kind));
    this.kinds = Uint8Array.from(tree.packed.frame, (at) => kinds[at]);
  }

  /** Take the colors and the font from the page. */
  retheme() {
    this.theme.read();
    this.batches = null;
  }

  paint(context: CanvasRenderingContext2D, sight: Sight, font: string) {
    const { layout: { rows }, dpr, width, height, scroll } = sight;
    context.setTransform(dpr, 0, 0, dpr, 0, 0);
    context.font = font;
    context.textBaseline = "middle";
    if (this.font !== font) {
      this.font = font;
      this.letter = context.measureText("0".repeat(50)).width / 50;
    }
    const batches = this.batches ??= this.batchesOf();
    this.texts.clear();
    const last = Math.min(rows.length - 1, Math.floor((scroll + height) / ROW));
    for (let depth = Math.max(0, Math.floor(scroll / ROW)); depth <= last; depth += 1) {
      this.row(batches, sight, rows[depth], depth * ROW - scroll);
    }
    context.fillStyle = this.theme.ground;
    context.fillRect(0, 0, width, height);
    const { plain, faint, merged, mergedFound, mark } = batches;
    for (const batch of [...plain, ...faint, merged, mergedFound, mark]) fill(context, batch);
    for (const [ink, texts] of this.texts) {
      context.fillStyle = ink;
      for (const [text, x, y] of texts) context.fillText(text, x, y);
    }
    for (const [node, color, wide] of [[sight.hovered, this.theme.ink, 1], [sight.chosen, this.theme.accent, 2]] as const) {
      if (node >= 0) this.outline(context, sight, node, color, wide);
    }
  }

  private batchesOf(): Batches {
    const { theme } = this, colors = Object.values(FRAME_COLORS).map((color) => theme.color(color));
    const batch = (color: string, alpha = 1): Batch => ({ fill: color, alpha, boxes: [] });
    return {
      plain: [batch(theme.strong), ...colors.map(({ css }) => batch(css))],
      faint: [batch(theme.strong), ...colors.map(({ faint }) => batch(faint))],
      merged: batch(theme.soft, 0.5), mergedFound: batch(theme.accent, 0.6), mark: batch(theme.ink),
    };
  }

  private row(batches: Batches, sight: Sight, row: Int32Array, y: number) {
    const { layout: { left, total }, from, to, width, found, dpr } = sight, scale = width / (to - from);
    const isAbove = this.tree.depth[row[0]] < this.tree.depth[sight.zoomed];
    let at = firstAfter(row, left, total, from);
    // What is narrower than a pixel, drawn as one: from where to where, and whether any of it was found.
    let begun = -1, ended = -1, isFound = false;
    const flush = () => {
      if (begun < 0) return;
      (isFound ? batches.mergedFound : batches.merged).boxes.push(begun, y + 3, Math.max(ended - begun, 0.7), ROW - 7);
      begun = -1;
    };
    while (at < row.length) {
      const node = row[at], start = left[node], end = start + total[node];
      if (start >= to) break;
      const x = Math.max(0, (start - from) * scale), until = Math.min(width, (end - from) * scale);
      if ((end - start) * scale >= 1) {
        flush();
        const edge = Math.round(x * dpr) / dpr;
        this.frame(batches, node, edge, Math.round(until * dpr) / dpr - edge, y, isAbove, found);
        at += 1;
        continue;
      }
      // On to the last that starts in this pixel: it alone of those can be wider than one.
      const next = Math.max(at + 1, firstFrom(row, left, from + (Math.floor(x) + 1) / scale, at) - 1);
      const tail = row[next - 1], stop = Math.min(width, (left[tail] + total[tail] - from) * scale);
      if (begun >= 0 && x - ended > 1) flush();
      if (begun < 0) {
        begun = x;
        isFound = false;
      }
      ended = stop;
      if (found && !isFound) for (let each = at; each < next && !isFound; each += 1) isFound = found[row[each]] > 0;
      at = next;
    }
    flush();
  }

  private frame(
    batches: Batches, node: number, x: number, wide: number, y: number, isAbove: boolean,
    found: Uint8Array | null,
  ) {
    const kind = this.kinds[node], isFaint = isAbove || (found !== null && !found[node]);
    batches[isFaint ? "faint" : "plain"][kind].boxes.push(x, y, Math.max(wide - (wide > 3 ? 1 : 0.25), 0.75), ROW - 1);
    if (found?.[node]) batches.mark.boxes.push(x, y + ROW - 4, Math.max(wide - 1, 0.75), 3);
    if (wide < LEAST) return;
    const room = Math.floor((wide - BESIDE) / this.letter), { label } = this.tree.frameOf(node);
    const text = label.length <= room ? label : room > 2 ? `${label.slice(0, room - 1)}…` : "";
    const ink = kind === 0 || isFaint ? this.theme.ink : this.theme.color(COLORS[kind - 1]).ink;
    const texts = this.texts.get(ink);
    if (texts) texts.push([text, x + 4, y + (ROW - 1) / 2 + 0.5]);
    else this.texts.set(ink, [[text, x + 4, y + (ROW - 1) / 2 + 0.5]]);
  }

  private outline(context: CanvasRenderingContext2D, sight: Sight, node: number, color: string, thick: number) {
    const { layout: { left, total }, from, to, width, scroll } = sight, scale = width / (to - from);
    const x = Math.max(0, (left[node] - from) * scale), until = Math.min(width, (left[node] + total[node] - from) * scale);
    if (until <= x) return;
    context.strokeStyle = color;
    context.lineWidth = thick;
    const wide = Math.max(until - x - 1, 1), y = this.tree.depth[node] * ROW - scroll;
    context.strokeRect(x + thick / 2, y + thick / 2, Math.max(wide - thick, 1), ROW - 1 - thick);
  }
}

/** Fill what a batch has, and empty it. */
function fill(context: CanvasRenderingContext2D, { fill: color, alpha, boxes }: Batch) {
  context.fillStyle = color;
  context.globalAlpha = alpha;
  for (let at = 0; at < boxes.length; at += 4) context.fillRect(boxes[at], boxes[at + 1], boxes[at + 2], boxes[at + 3]);
  context.globalAlpha = 1;
  boxes.length = 0;
}

/** The place in a row of the first node that ends after a place. */
function firstAfter(row: Int32Array, left: Float64Array, total: Float64Array, from: number) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (left[row[middle]] + total[row[middle]] > from) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The place in a row of the first node, from a place on, that starts there or later. */
function firstFrom(row: Int32Array, left: Float64Array, at: number, from: number) {
  let [low, high] = [from, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (left[row[middle]] >= at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The node of a row that is at a place, or -1. */
export function nodeAt({ rows, left, total }: Layout, depth: number, at: number): number {
  const row = rows[depth];
  if (!row) return -1;
  const found = row[firstAfter(row, left, total, at)];
  return found !== undefined && left[found] <= at ? found : -1;
}
