// The minimap: how busy host and GPU were over the whole recording, with a frame around what is shown.

import { contextOf } from "../shared/dom";
import { KERNEL_COLORS, PHASE_COLORS } from "../shared/generated";
import { addShares } from "./tracks";
import type { View } from "./view";
import type { TableName } from "./wire";

export class Minimap {
  /** What a drag moves: an end of the frame, or all of it, by how far from its start it was taken. */
  private drag: "start" | "end" | number | null = null;
  /** What the picture was painted for. */
  private key = "";
  private picture: HTMLCanvasElement | null = null;

  constructor(
    private readonly canvas: HTMLCanvasElement, private readonly view: View, private readonly changed: () => void,
  ) {
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => { this.drag = null; });
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
  }

  private scale() {
    const [least, most] = this.view.limits();
    return { least, span: most - least };
  }

  private time(event: PointerEvent) {
    const box = this.canvas.getBoundingClientRect(), { least, span } = this.scale();
    return least + ((event.clientX - box.left) / box.width) * span;
  }

  private press(event: PointerEvent) {
    const { view } = this, at = this.time(event), { span } = this.scale();
    const near = (span / this.view.width) * 6;
    this.canvas.setPointerCapture(event.pointerId);
    if (Math.abs(at - view.t0) < near) this.drag = "start";
    else if (Math.abs(at - view.t1) < near) this.drag = "end";
    else {
      if (at < view.t0 || at > view.t1) this.center(at);
      this.drag = at - view.t0;
    }
    event.preventDefault();
  }

  private move(event: PointerEvent) {
    const { view } = this, at = this.time(event);
    if (this.drag === null) {
      const near = (this.scale().span / view.width) * 6;
      const isEdge = Math.abs(at - view.t0) < near || Math.abs(at - view.t1) < near;
      this.canvas.style.cursor = isEdge ? "ew-resize" : "grab";
      return;
    }
    if (this.drag === "start") view.show(Math.min(at, view.t1 - 10), view.t1);
    else if (this.drag === "end") view.show(view.t0, Math.max(at, view.t0 + 10));
    else view.show(at - this.drag, at - this.drag + view.t1 - view.t0);
    this.changed();
  }

  private center(at: number) {
    const half = (this.view.t1 - this.view.t0) / 2;
    this.view.show(at - half, at + half);
    this.changed();
  }

  /** Paint it anew with the next frame, as with another theme. */
  forget() { this.key = ""; }

  draw() {
    const { view, canvas } = this, context = contextOf(canvas), { dpr, width, theme } = view;
    const high = canvas.clientHeight;
    context.setTransform(1, 0, 0, 1, 0, 0);
    const key = `${canvas.width},${theme.ground}`;
    if (this.key !== key) {
      this.key = key;
      this.picture = this.paint(high);
    }
    if (this.picture) context.drawImage(this.picture, 0, 0);
    context.setTransform(dpr, 0, 0, dpr, 0, 0);
    const { least, span } = this.scale();
    const left = ((view.t0 - least) / span) * width, right = ((view.t1 - least) / span) * width;
    context.fillStyle = theme.isDark ? "rgba(0,0,0,.5)" : "rgba(255,255,255,.62)";
    context.fillRect(0, 0, left, high);
    context.fillRect(right, 0, width - right, high);
    if (view.selection) {
      const x0 = ((Math.min(...view.selection) - least) / span) * width;
      const x1 = ((Math.max(...view.selection) - least) / span) * width;
      context.fillStyle = theme.isDark ? "rgba(110,170,255,.25)" : "rgba(30,100,220,.18)";
      context.fillRect(x0, 0, Math.max(1, x1 - x0), high);
    }
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(Math.max(0.75, left), 0.75, Math.max(4, Math.min(width - 1.5, right - left)), high - 1.5);
    context.fillStyle = theme.accent;
    for (const x of [left, right]) context.fillRect(Math.min(Math.max(0, x - 1.5), width - 3), high / 2 - 6, 3, 12);
  }

  private paint(high: number) {
    const { view, canvas } = this, picture = document.createElement("canvas");
    picture.width = canvas.width;
    picture.height = canvas.height;
    const context = contextOf(picture), { least, span } = this.scale(), wide = canvas.width;
    context.fillStyle = view.theme.ground;
    context.fillRect(0, 0, wide, canvas.height);
    const halves: [TableName, string, number][] = [["launches", PHASE_COLORS[0], 0], ["gpu", KERNEL_COLORS[2], 1]];
    const middle = (high / 2) * view.dpr;
    for (const [table, color, half] of halves) {
      const tracks = [...view.tracks.values()].filter((track) => track.spec.table === table && !track.spec.depth);
      const shares = new Float64Array(wide);
      for (const track of tracks) addShares(track, least, span / wide, shares);
      context.fillStyle = view.theme.color(color).css;
      const most = Math.max(1, tracks.length);
      for (let x = 0; x < wide; x++) {
        if (!shares[x]) continue;
        const tall = Math.max(1, (Math.min(shares[x], most) / most) * (middle - 2 * view.dpr));
        context.fillRect(x, half ? middle + 1 : middle - tall, 1, tall);
      }
    }
    context.fillStyle = view.theme.line;
    context.fillRect(0, middle, wide, 1);
    return picture;
  }
}

