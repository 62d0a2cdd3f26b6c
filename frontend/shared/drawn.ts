// What every view that draws a picture does: it draws at the next frame after a change, until it is destroyed.

import { Undoing } from "./dom";

export abstract class DrawnView {
  abstract readonly root: HTMLElement;
  readonly undoing = new Undoing();
  protected isGone = false;
  private request = 0;

  abstract draw(): void;

  /** Draw at the next frame. */
  changed() {
    if (this.request || this.isGone) return;
    this.request = requestAnimationFrame(() => {
      this.request = 0;
      this.draw();
    });
  }

  destroy() {
    this.isGone = true;
    this.undoing.run();
    cancelAnimationFrame(this.request);
    this.root.remove();
  }
}
