// Mouse, wheel and keyboard.

import type { Lane } from "./layout";
import type { EventPlace } from "./search";
import type { Timeline } from "./timeline";
import type { Track } from "./tracks";
import type { TimelineEvent, View } from "./view";

const CLICK = 4;

interface Drag {
  x: number;
  y: number;
  lastX: number;
  lastY: number;
  isBox: boolean;
  hasMoved: boolean;
}

export class Controls {
  readonly view: View;
  private drag: Drag | null = null;
  isBoxing = false;
  /** The stretch that is drawn on the ruler. */
  private marking: { from: number; x: number; to?: number } | null = null;
  private fading = 0;

  constructor(readonly timeline: Timeline) {
    this.view = timeline.view;
    const { body, canvas, undoing } = timeline;
    undoing.listen(canvas, "pointerdown", (event) => this.press(event));
    undoing.listen(canvas, "pointermove", (event) => this.move(event));
    undoing.listen(canvas, "pointerup", (event) => this.release(event));
    undoing.listen(canvas, "pointercancel", () => this.cancel());
    undoing.listen(canvas, "pointerleave", () => this.leave());
    undoing.listen(canvas, "dblclick", (event) => this.double(event));
    undoing.listen(body, "wheel", (event) => this.wheel(event), { passive: false });
    undoing.listen(body, "scroll", () => { this.view.scroll = body.scrollTop; timeline.changed(); });
    undoing.listen(timeline.root, "keydown", (event) => this.key(event));
    const ruler = timeline.part("ruler");
    undoing.listen(ruler, "pointerdown", (event) => this.mark(event));
    undoing.listen(ruler, "pointermove", (event) => this.stretch(event));
    undoing.listen(ruler, "pointerup", () => this.marked());
    this.buttons();
  }

  private buttons() {
    const { timeline, view } = this, { part, undoing } = timeline, search = timeline.searchField;
    const press = (name: string, action: () => void) => undoing.listen(part(name), "click", action);
    press("zoomin", () => { view.zoom(0.5); timeline.changed(); });
    press("zoomout", () => { view.zoom(2); timeline.changed(); });
    press("fit", () => timeline.fit());
    press("boxed", () => this.box(!this.isBoxing));
    press("help", () => timeline.help());
    press("count", () => timeline.toggleMatches());
    press("next", () => timeline.step(true));
    press("previous", () => timeline.step(false));
    undoing.listen(search, "input", () => timeline.search(search.value.trim()));
    undoing.listen(search, "keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") timeline.step(!event.shiftKey);
      if (event.key === "Escape") {
        timeline.clearSearch();
        timeline.body.focus({ preventScroll: true });
      }
    });
  }

  box(isOn: boolean) {
    this.isBoxing = isOn;
    this.timeline.part("boxed").setAttribute("aria-pressed", String(isOn));
    this.timeline.note("box", isOn ? () => this.box(false) : null);
    this.timeline.canvas.style.cursor = isOn ? "crosshair" : "";
  }

  place(event: MouseEvent): [number, number] {
    const box = this.timeline.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  press(event: PointerEvent) {
    if (event.button) return;
    const [x, y] = this.place(event);
    this.timeline.body.focus({ preventScroll: true });
    this.timeline.canvas.setPointerCapture(event.pointerId);
    const isBox = this.isBoxing || event.shiftKey;
    this.drag = { x, y, lastX: x, lastY: y, isBox, hasMoved: false };
    event.preventDefault();
  }

  move(event: PointerEvent) {
    const [x, y] = this.place(event), { view, timeline, drag } = this;
    view.pointer = x;
    if (drag) {
      drag.hasMoved ||= Math.abs(x - drag.x) + Math.abs(y - drag.y) > CLICK;
      if (drag.hasMoved && drag.isBox) view.box = [view.time(drag.x), view.time(x)];
      else if (drag.hasMoved) {
        view.pan(drag.lastX - x);
        timeline.scrollTo(view.scroll + drag.lastY - y);
        timeline.canvas.style.cursor = "grabbing";
      }
      [drag.lastX, drag.lastY] = [x, y];
      if (drag.hasMoved) timeline.point(null);
    } else this.hover(event, x, y);
    timeline.changed();
  }

  hover(event: PointerEvent, x: number, y: number) {
    const { view } = this, lane = view.layout.laneAt(y, view.scroll), step = (view.t1 - view.t0) / view.width;
    const group = lane?.processes.length ? view.busy.describe(lane, view.time(x), step) : undefined;
    this.timeline.point(view.hit(x, y), event.clientX, event.clientY, group);
  }

  release(event: PointerEvent) {
    const { drag, view, timeline } = this, [x, y] = this.place(event);
    this.drag = null;
    timeline.canvas.style.cursor = this.isBoxing ? "crosshair" : "";
    if (!drag) return;
    if (drag.isBox && drag.hasMoved && view.box) {
      const [from, to] = [Math.min(...view.box), Math.max(...view.box)];
      view.box = null;
      view.show(from, to);
      this.box(false);
    } else if (!drag.hasMoved) timeline.pin(view.hit(x, y));
    timeline.changed();
  }

  private cancel() {
    this.drag = this.view.box = null;
    this.timeline.changed();
  }

  leave() {
    this.view.pointer = null;
    this.timeline.point(null);
    this.timeline.changed();
  }

  double(event: MouseEvent) {
    const [x, y] = this.place(event), found = this.view.hit(x, y);
    if (found) this.fitEvent(found);
    else this.timeline.fit();
  }

  fitEvent({ track, index }: EventPlace) {
    const start = track.start[index], lasting = Math.max(track.end[index] - start, 10);
    this.timeline.show(start - lasting * 0.1, start + lasting * 1.1);
  }

  /** The page scrolls unless the timeline has the focus or Ctrl is held: a notebook's cells must not trap the wheel. */
  wheel(event: WheelEvent) {
    const { view, timeline } = this, has = timeline.root.contains(document.activeElement);
    const scale = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1;
    const [x] = this.place(event), down = event.deltaY * scale, aside = event.deltaX * scale;
    if (!has && !event.ctrlKey && !event.metaKey) {
      this.hint();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (x < 0 || event.altKey) timeline.scrollTo(view.scroll + down);
    else if (event.shiftKey && !aside) view.pan(down);
    else if (Math.abs(aside) > Math.abs(down)) view.pan(aside);
    else {
      // Pinching on a touchpad comes as Ctrl and small steps.
      const speed = event.ctrlKey && Math.abs(down) < 20 ? 0.012 : 0.0022;
      view.zoom(Math.exp(Math.max(-240, Math.min(240, down)) * speed), x);
    }
    timeline.changed();
  }

  hint() {
    const hint = this.timeline.part("hint");
    hint.textContent = "Click the timeline to zoom with the wheel, or hold Ctrl";
    hint.hidden = false;
    clearTimeout(this.fading);
    this.fading = window.setTimeout(() => { hint.hidden = true; }, 1400);
  }

  mark(event: PointerEvent) {
    if (event.button) return;
    this.timeline.part("ruler").setPointerCapture(event.pointerId);
    const [x] = this.place(event);
    this.marking = { from: this.view.time(x), x };
    event.preventDefault();
  }

  stretch(event: PointerEvent) {
    const [x] = this.place(event);
    if (!this.marking) {
      return;
    }
    if (Math.abs(x - this.marking.x) < CLICK) return;
    const to = this.view.time(Math.max(0, Math.min(this.view.width, x)));
    this.marking.to = to;
    this.view.selection = [this.marking.from, to];
    this.timeline.changed();
  }

  marked() {
    const { marking } = this;
    this.marking = null;
    if (!marking) return;
    if (marking.to === undefined) this.timeline.select(null);
    else {
      const ends = [marking.from, marking.to].map(Math.round);
      this.timeline.select(Math.min(...ends), Math.max(...ends));
    }
  }

  key(event: KeyboardEvent) {
    // The notebook must not take keys that are meant for the timeline.
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isInLanes = event.target === this.timeline.body;
    const action = KEYS_ANYWHERE[event.key] ?? (isInLanes ? KEYS_IN_LANES[event.key] : null);
    if (action && action(this, event) !== false) event.preventDefault();
  }

  /** The next event of the chosen one's track; false at its end, so that the focus goes on. */
  next(by: number) {
    const { pinned } = this.view;
    if (!pinned) return false;
    const index = pinned.index + by;
    if (index < 0 || index >= pinned.track.n) { this.timeline.pin(null); return false; }
    this.timeline.go(this.view.event(pinned.track, index));
    return true;
  }

  /** Choose the event in the middle of the first visible track that has one; a chosen one is fitted. */
  choose() {
    const { view } = this;
    if (view.pinned) return this.fitEvent(view.pinned);
    const middle = (view.t0 + view.t1) / 2;
    for (const lane of view.layout.lanes) {
      for (const row of lane.rows) {
        const isSeen = lane.isStuck || view.top(row) >= view.layout.stuck - 4;
        const found = isSeen ? this.nearest(row.track, middle) : null;
        if (found) return this.timeline.go(found);
      }
    }
    return undefined;
  }

  nearest(track: Track, time: number): TimelineEvent | null {
    const [from, to] = track.visible(this.view.t0, this.view.t1);
    if (from >= to) return null;
    let index = track.visible(time, time)[1] - 1;
    index = Math.max(from, Math.min(to - 1, index));
    return this.view.event(track, index);
  }

  /** The track above or below the chosen event's. */
  across(by: number) {
    const { view, timeline } = this, { pinned } = view;
    if (!pinned) return timeline.scrollTo(view.scroll + by * 40);
    const rows = view.layout.lanes.flatMap((lane) => lane.rows), start = pinned.track.start[pinned.index];
    const end = pinned.track.end[pinned.index];
    let at = rows.findIndex((row) => row.track === pinned.track) + by;
    for (; at >= 0 && at < rows.length; at += by) {
      const found = this.nearest(rows[at].track, (start + end) / 2);
      if (found) return timeline.go(found);
    }
    return undefined;
  }

  zoomBy(factor: number) {
    const { view } = this;
    view.zoom(factor, view.pointer ?? view.width / 2);
    this.timeline.changed();
  }

  panBy(share: number) {
    this.view.pan(share * this.view.width);
    this.timeline.changed();
  }

  /** Sum up the chosen event's stretch of time, or what is shown. */
  selectShown() {
    const { view, timeline } = this, { pinned } = view;
    if (pinned) timeline.select(pinned.track.start[pinned.index], Math.max(...this.ends(pinned)));
    else timeline.select(Math.max(0, Math.round(view.t0)), Math.min(Math.round(view.t1), view.model.span));
  }

  ends({ track, index }: EventPlace) { return [track.end[index], track.start[index] + 1]; }

  /** Draw the idle time in sight as long as it was; where none is, all of it short again. */
  unfoldIdle() {
    const { view, timeline } = this;
    timeline.unfold(view.model.axis.breaks.find((each) => each.at < view.t1 && each.at + each.shown > view.t0) ?? null);
  }

  /** The lane of which a label has the focus, else that of the chosen event. */
  lane(): Lane | null {
    const { pinned, layout } = this.view;
    return this.timeline.laneInFocus() ?? (pinned && layout.rowOf(pinned.track)?.lane) ?? null;
  }

  foldLane(isAll: boolean) {
    const lane = this.lane();
    if (lane) this.timeline.fold(lane, !lane.isFolded, isAll);
  }

  pinLane() {
    const lane = this.lane();
    if (lane) this.timeline.pinLane(lane);
  }
}

/** What a key does; false where it does nothing, and is left to the page. */
type Action = (controls: Controls, event: KeyboardEvent) => unknown;

const KEYS_ANYWHERE: Record<string, Action> = {
  Escape: (controls) => controls.timeline.escape(),
  "/": (controls) => controls.timeline.searchField.focus(),
  "?": (controls) => controls.timeline.help(),
  n: (controls) => controls.timeline.step(true),
  N: (controls) => controls.timeline.step(false),
  m: (controls) => controls.timeline.toggleMatches(),
  o: (controls) => controls.timeline.orderMatches(),
  i: (controls) => controls.timeline.part("pin").querySelector<HTMLElement>(".kst-inspect")?.click(),
  c: (controls) => controls.timeline.showLine(),
  b: (controls) => controls.box(!controls.isBoxing),
  w: (controls) => controls.zoomBy(0.7),
  s: (controls) => controls.zoomBy(1 / 0.7),
  "+": (controls) => controls.zoomBy(0.7),
  "=": (controls) => controls.zoomBy(0.7),
  "-": (controls) => controls.zoomBy(1 / 0.7),
  a: (controls) => controls.panBy(-0.2),
  d: (controls) => controls.panBy(0.2),
  f: (controls) => (controls.view.pinned ? controls.fitEvent(controls.view.pinned) : controls.timeline.fit()),
  l: (controls) => controls.foldLane(false),
  L: (controls) => controls.foldLane(true),
  p: (controls) => controls.pinLane(),
  r: (controls) => controls.selectShown(),
  u: (controls) => controls.unfoldIdle(),
  U: (controls) => controls.timeline.unfold(null),
};

const KEYS_IN_LANES: Record<string, Action> = {
  ArrowLeft: (controls) => controls.panBy(-0.1),
  ArrowRight: (controls) => controls.panBy(0.1),
  ArrowUp: (controls) => controls.across(-1),
  ArrowDown: (controls) => controls.across(1),
  Home: (controls) => controls.timeline.fit(),
  Enter: (controls) => controls.choose(),
  Tab: (controls, event) => controls.next(event.shiftKey ? -1 : 1),
};
