// The timeline: mount() draws a packed recording into an element. No other script is needed, and nothing is fetched.

import STYLE from "./timeline.css";
import {
  Undoing, button, contextOf, element, focusable, followTheme, keepShortcutsAway, liveRegion,
} from "../shared/dom";
import { frame, keysOf, searchField } from "../shared/frame";
import { hasInspector, inspectHere, offerTimeline } from "../shared/places";
import { clean, count, counted, duration, moment } from "../shared/text";
import { followCard } from "../card/card";
import type { Break } from "./axis";
import { Theme } from "./colors";
import { Controls } from "./controls";
import type { Lane } from "./layout";
import { Minimap } from "./minimap";
import { Model } from "./model";
import { paintLanes, paintOverlay } from "./paint";
import { KEYS, fillMatches, fillSums, fillTip, legend, sentence } from "./panels";
import type { EventPlace } from "./search";
import { firstOf, keyOf } from "./specializations";
import { type TimelineEvent, View } from "./view";
import type { Header, Packed, TableName } from "./wire";

const HEIGHT = 420;
/** So many matches of a search are listed. */
const MOST_MATCHES = 200;
/** A tooltip is over the whole page where the browser can: a notebook's output would cut it off. */
const canPop = "showPopover" in HTMLElement.prototype;
// Of the lanes' labels: the least and the most pixels, the most of the timeline's width, and what is beside their text.
const GUTTER = { least: 104, most: 260, share: 0.26, beside: 34 };

export interface Options extends Packed {
  /** The most that lanes take of the height, in CSS pixels. */
  height?: number;
  /** Opens an inspector beside the timeline where the page has none; whether that can be done. */
  inspect?: (key: string) => Promise<boolean>;
}

/** Draw a recording into an element; what it holds already is kept. `ready` is kept after the first paint. */
export function mount(host: HTMLElement, options: Options): Timeline {
  const timeline = new Timeline(host, options);
  timeline.undoing.add(offerTimeline({
    root: timeline.root, has: (key) => timeline.has(key), showCompile: (key) => timeline.goToFirst("compiles", key),
    showLaunches: (key) => timeline.goToFirst("launches", key),
  }), followCard(host, {
    go: (table, row) => timeline.goTo(table as TableName, row), search: (name) => timeline.searchFor(name),
    open: options.inspect,
  }));
  return timeline;
}

export class Timeline {
  readonly ready: Promise<this>;
  readonly root: HTMLElement;
  /** When the page mounted this and first painted it, and how long its frames took: for benchmarks and tests. */
  readonly frames: { count: number; milliseconds: number[]; mounted: number; first: number | null };
  /** These are there once it is ready. */
  model!: Model;
  view!: View;
  body!: HTMLElement;
  canvas!: HTMLCanvasElement;
  private minimap!: Minimap;
  controls!: Controls;
  private readonly maximum: number;
  readonly undoing = new Undoing();
  private readonly parts = new Map<string, HTMLElement>();
  private isGone = false;
  private request = 0;
  private widest = 0;

  private readonly inspect: Options["inspect"];

  constructor(host: HTMLElement, { header, payload, height, inspect }: Options) {
    this.inspect = inspect;
    this.maximum = height ?? HEIGHT;
    this.frames = { count: 0, milliseconds: [], mounted: performance.now(), first: null };
    this.root = framed(header);
    host.append(this.root);
    this.ready = this.open(header, payload).catch((problem: Error) => this.fail(problem));
  }

  /** An element of the frame. */
  readonly part = (name: string): HTMLElement => {
    const found = this.parts.get(name) ?? this.root.querySelector<HTMLElement>(`.kst-${name}`);
    if (!found) throw new Error(`the timeline has no part ${name}`);
    this.parts.set(name, found);
    return found;
  };

  get searchField(): HTMLInputElement { return this.part("search") as HTMLInputElement; }

  private canvasOf(name: string): HTMLCanvasElement { return this.part(name) as HTMLCanvasElement; }

  private async open(header: Header, payload: BufferSource) {
    const model = await Model.open(header, payload);
    if (this.isGone) return this;
    this.model = model;
    this.view = new View(model, new Theme(this.root));
    this.view.theme.read();
    this.body = this.part("body");
    this.canvas = this.canvasOf("canvas");
    this.minimap = new Minimap(this.canvasOf("map"), this.view, () => this.changed());
    this.controls = new Controls(this);
    this.part("legend").replaceChildren(...legend(this.view));
    this.labels();
    this.watch();
    this.resize();
    this.draw();
    return this;
  }

  /** Say what went wrong in the timeline's place. */
  private fail(problem: Error) {
    const said = `The timeline cannot be shown: ${problem.message}`;
    this.part("body").replaceChildren(element("div", "ksv-problem kst-problem", said));
    return this;
  }

  destroy() {
    this.isGone = true;
    this.undoing.run();
    if (this.request) cancelAnimationFrame(this.request);
    this.root.remove();
    // What still refers to this, as a notebook's output may, keeps no recording.
    Object.assign(this, { model: null, view: null, minimap: null, controls: null });
  }

  private watch() {
    const sized = new ResizeObserver(() => { if (this.resize()) this.changed(); });
    sized.observe(this.root);
    this.undoing.add(() => sized.disconnect());
    this.undoing.add(followTheme(() => this.retheme()));
  }

  private retheme() {
    this.view.theme.read();
    this.minimap.forget();
    this.widest = 0;
    this.resize();
    this.changed();
  }

  /** Take the sizes from the page; whether any is new. */
  resize(): boolean {
    const { view, canvas } = this, dpr = window.devicePixelRatio || 1;
    this.widest ||= this.widestLabel();
    const most = Math.min(GUTTER.most, GUTTER.share * this.root.clientWidth);
    const gutter = Math.round(Math.max(GUTTER.least, Math.min(this.widest + GUTTER.beside, most)));
    this.root.style.setProperty("--kst-gutter", `${gutter}px`);
    const wide = Math.max(60, Math.floor(this.part("ruler").getBoundingClientRect().width));
    const high = Math.min(this.maximum, Math.max(60, view.layout.height));
    this.body.style.height = `${high + 1}px`; // its upper border is one pixel
    this.part("lanes").style.height = `${view.layout.height}px`;
    if (view.width === wide && view.height === high && view.dpr === dpr && canvas.width) return false;
    Object.assign(view, { width: wide, height: high, dpr });
    const all: [HTMLCanvasElement, number][] = [
      [canvas, high], [this.canvasOf("ruler"), 24], [this.canvasOf("map"), 40],
    ];
    for (const [each, tall] of all) {
      each.width = Math.round(wide * dpr);
      each.height = Math.round(tall * dpr);
      each.style.width = each === canvas ? `${wide}px` : "";
      each.style.height = `${tall}px`;
    }
    this.scrollTo(view.scroll);
    return true;
  }

  /** How wide the lanes' labels are in the page's font; 0 while they are not seen. */
  private widestLabel() {
    const range = document.createRange();
    const widths = [...this.part("gutter").querySelectorAll(".kst-name, .kst-note")].map((text) => {
      range.selectNodeContents(text);
      return range.getBoundingClientRect().width;
    });
    return Math.max(0, ...widths);
  }

  scrollTo(y: number) {
    this.view.scroll = Math.max(0, Math.min(y, this.view.layout.height - this.view.height));
    if (Math.abs(this.body.scrollTop - this.view.scroll) > 0.5) this.body.scrollTop = this.view.scroll;
  }

  private labels() {
    const gutter = this.part("gutter");
    gutter.replaceChildren(...this.view.layout.lanes.map((lane) => {
      const [label, note] = [clean(lane.spec.label), clean(lane.spec.note)];
      const made = button(`kst-lane kst-${lane.spec.group}`, "", `${label} ${note}`, () => this.fold(lane));
      made.removeAttribute("aria-label");
      made.append(element("span", "kst-fold", "▾"), element("span", "kst-name", label),
        element("span", "kst-note", note));
      return made;
    }));
    this.placeLabels();
  }

  private placeLabels() {
    const buttons = [...this.part("gutter").children] as HTMLElement[];
    this.view.layout.lanes.forEach((lane, at) => {
      const made = buttons[at], [fold] = made.children;
      made.style.top = `${lane.y}px`;
      made.style.height = `${lane.height}px`;
      made.setAttribute("aria-expanded", String(!lane.isFolded));
      fold.textContent = lane.isFolded ? "▸" : "▾";
    });
  }

  fold(lane: Lane, isFolded?: boolean) {
    this.view.layout.fold(lane, isFolded);
    this.placeLabels();
    this.resize();
    this.scrollTo(this.view.scroll);
    this.changed();
  }

  /** Draw at the next frame. */
  changed() {
    if (this.request || this.isGone) return;
    this.request = requestAnimationFrame(() => { this.request = 0; if (!this.isGone) this.draw(); });
  }

  draw() {
    const begun = performance.now();
    const context = contextOf(this.canvas);
    paintLanes(this.view, context);
    paintOverlay(this.view, context);
    this.ruler();
    this.minimap.draw();
    const spent = performance.now() - begun;
    this.frames.first ??= begun + spent;
    this.frames.count += 1;
    this.frames.milliseconds.push(spent);
    if (this.frames.milliseconds.length > 1000) this.frames.milliseconds.shift();
  }

  private ruler() {
    const { view } = this, context = contextOf(this.canvasOf("ruler")), { theme } = view;
    context.setTransform(view.dpr, 0, 0, view.dpr, 0, 0);
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, view.width, 24);
    if (view.selection) {
      const [from, to] = [Math.min(...view.selection), Math.max(...view.selection)].map((time) => view.x(time));
      context.fillStyle = theme.isDark ? "rgba(110,170,255,.3)" : "rgba(30,100,220,.2)";
      context.fillRect(from, 0, Math.max(1, to - from), 24);
    }
    const { step, marks } = view.ticks();
    context.font = theme.small;
    context.textBaseline = "middle";
    for (const each of view.model.axis.breaks) {
      const left = view.x(each.at), wide = view.x(each.at + each.shown) - left;
      if (left > view.width || left + wide < 0) continue;
      context.fillStyle = theme.stripes(context, "#888888", false);
      context.fillRect(left, 0, Math.max(2, wide), 24);
    }
    let taken = -Infinity;
    for (const at of marks) {
      const x = Math.round(view.x(at));
      context.fillStyle = theme.strong;
      context.fillRect(x, 15, 1, 9);
      if (x < taken) continue; // two ticks are near where idle time is between them
      context.fillStyle = theme.soft;
      const text = moment(Math.round(view.model.axis.real(at) / step) * step, step), wide = view.measure(context, text, true);
      context.fillText(text, Math.min(Math.max(x + 3, 2), view.width - wide - 2), 9);
      taken = x + 3 + wide + 6;
    }
  }

  /** Show the tooltip of what the pointer is on, at a place of the window; or nothing. */
  point(event: TimelineEvent | null, x = 0, y = 0) {
    const { view } = this, tip = this.part("tip");
    const isSame = event && view.hover && event.track === view.hover.track && event.index === view.hover.index;
    view.hover = event;
    if (!event) { this.hideTip(); return; }
    if (!isSame || tip.hidden) fillTip(tip, view, event);
    tip.hidden = false;
    if (canPop && !tip.matches(":popover-open")) tip.showPopover();
    const { width, height } = tip.getBoundingClientRect(), root = this.root.getBoundingClientRect();
    const left = x + 14 + width > window.innerWidth ? Math.max(4, x - 14 - width) : x + 14;
    const top = y + 16 + height > window.innerHeight ? Math.max(4, y - 12 - height) : y + 16;
    tip.style.left = `${canPop ? left : left - root.left}px`;
    tip.style.top = `${canPop ? top : top - root.top}px`;
  }

  private hideTip() {
    const tip = this.part("tip");
    if (canPop && tip.matches(":popover-open")) tip.hidePopover();
    tip.hidden = true;
  }

  /** Pin an event: its details stay below the lanes, and can be copied; null lets go. */
  pin(event: TimelineEvent | null) {
    const { view } = this, pinned = this.part("pin");
    view.pinned = event;
    this.hideTip();
    pinned.hidden = !event;
    if (event) {
      fillTip(pinned, view, event);
      const key = keyOf(view.model, event), { inspect } = this;
      if (key && (inspect || hasInspector(this.root, key))) {
        pinned.append(button("ksv-button kst-inspect", "Inspect", "open the inspector at this specialization",
          () => { if (!inspectHere(this.root, key)) void inspect?.(key); }));
      }
      pinned.append(button("kst-close", "×", "Let go (Esc)", () => {
        this.pin(null);
        this.body.focus({ preventScroll: true });
      }));
      this.say(sentence(view, event));
    }
    this.changed();
  }

  /** Pin an event and bring it into sight. */
  go(event: TimelineEvent | null) {
    if (!event) return;
    this.view.reveal(event);
    this.placeLabels();
    this.resize();
    this.scrollTo(this.view.scroll);
    this.pin(event);
  }

  /** Pin a row of one of the tables, bring it into sight, and the timeline with it; whether it is drawn. */
  goTo(table: TableName, row: number): boolean {
    const event = this.model?.tables[table] ? this.view.find(table, row) : null;
    this.go(event);
    if (event) this.root.scrollIntoView({ block: "nearest", behavior: "instant" });
    return event !== null;
  }

  /** Whether it has a compile and launches of a specialization. */
  has(key: string): { compile: boolean; launches: boolean } {
    const found = this.model ? firstOf(this.model, key) : { compile: -1, launch: -1 };
    return { compile: found.compile >= 0, launches: found.launch >= 0 };
  }

  /** Pin the first compile or launch of a specialization, and mark what has its kernel's name. */
  goToFirst(table: "compiles" | "launches", key: string): void {
    const { compile, launch } = firstOf(this.model, key), row = table === "compiles" ? compile : launch;
    if (table === "launches") this.searchFor(this.model.table("launches").at("dispatcher_id", row));
    this.goTo(table, row);
  }

  /** Search for a name, or for that of a kernel, as if it had been typed, and show its first match. */
  searchFor(name: string | number) {
    const text = typeof name === "string" ? name : this.model.facts.kernels[name]?.name ?? "";
    this.searchField.value = text;
    if (this.search(text)) this.step(true);
    this.root.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  say(text: string) { this.part("live").textContent = text; }

  /** Search by name; an empty text ends the search. Returns how many events match. */
  search(text: string) {
    this.view.seek(text);
    const found = this.view.search?.count ?? 0;
    const shown = this.part("count");
    shown.textContent = text ? counted(found, "match", "matches") : "";
    shown.hidden = !text;
    if (!this.part("matches").hidden) this.listMatches(found > 0);
    this.changed();
    return found;
  }

  /** Draw a stretch of idle time as long as it was; without one, all short again. */
  unfold(found: Break | null) {
    this.view.unfold(found);
    this.minimap.forget();
    this.searchField.value = "";
    this.search("");
    this.labels();
    this.resize();
    this.pin(this.view.pinned);
    this.changed();
  }

  /** Show what the search has found as a list below the lanes, by time or by duration; or put it away. */
  listMatches(isShown: boolean, isByDuration = false) {
    const { view } = this, panel = this.part("matches");
    panel.hidden = true;
    if (!isShown || !view.search?.count) return;
    const found = view.search.list(isByDuration, MOST_MATCHES).map(({ track, index }) => view.event(track, index));
    fillMatches(panel, view, found, isByDuration, {
      order: (wanted) => this.listMatches(true, wanted), go: (event) => this.go(event),
      close: () => this.listMatches(false),
    });
  }

  toggleMatches() { this.listMatches(this.part("matches").hasAttribute("hidden")); }

  step(forward: boolean) {
    const { view } = this;
    if (view.search) this.go(asEvent(view, view.search.step(view.pinned, forward)));
  }

  /** Select a stretch of time, in nanoseconds since the start, and show its sums; null drops it. */
  select(from: number | null, to?: number) {
    const { view } = this, panel = this.part("sums");
    view.selection = from === null ? null : [from, to ?? from];
    const sums = view.sums();
    if (sums) {
      fillSums(panel, sums, () => this.select(null));
      this.say(`selected ${duration(sums.span)}: ${counted(sums.launches, "launch", "launches")}, ${
        duration(sums.host)} of the host, ${count(sums.kernels)} kernels, GPU busy ${duration(sums.busy)}`);
    } else panel.hidden = true;
    this.changed();
  }

  sums() { return this.view.sums(); }

  fit() { this.view.fit(); this.changed(); }

  show(t0: number, t1: number) { this.view.show(t0, t1); this.changed(); }
}

function asEvent(view: View, found: EventPlace | null) { return found ? view.event(found.track, found.index) : null; }

function framed(header: Header) {
  const root = frame("kst", `timeline of ${clean(header.title)}`, STYLE);
  keepShortcutsAway(root);
  const tool = (name: string, text: string, title: string) => (
    button(`ksv-button kst-button kst-${name}`, text, title, () => {}));
  const matches = tool("count", "", "list the matches (m)");
  matches.hidden = true;
  const bar = element("div", "ksv-bar kst-bar", element("span", "ksv-title", "Timeline"),
    element("span", "kst-about", about(header)));
  if (header.notice) bar.append(element("span", "ksv-chip kst-chip", header.notice));
  bar.append(searchField("ksv-search kst-search", "Search names  /", "search by name"), matches,
    element("span", "ksv-buttons", tool("previous", "↑", "previous match (N)"), tool("next", "↓", "next match (n)"),
      tool("zoomin", "+", "zoom in (w)"), tool("zoomout", "−", "zoom out (s)"), tool("fit", "Fit", "show all (f)"),
      tool("boxed", "▣", "zoom into a box: drag on the lanes (or Shift-drag)"), tool("help", "?", "keys")));
  const lanes = element("div", "kst-lanes", element("div", "kst-gutter"), element("canvas", "kst-canvas"));
  const body = element("div", "ksv-drawn kst-body", lanes);
  focusable(body);
  body.setAttribute("role", "application");
  body.setAttribute("aria-label", "lanes: Enter chooses an event, Tab the next one, arrows move, f shows all, "
    + "? tells keys");
  const hidden = (name: string) => {
    const made = element("div", name);
    made.hidden = true;
    return made;
  };
  const tip = hidden("ksv-tip kst-tip");
  tip.setAttribute("popover", "manual");
  const head = element("div", "kst-head", element("canvas", "kst-map"), element("canvas", "kst-ruler"));
  root.append(bar, keysOf("ksv-keys kst-keys", KEYS), head, body, hidden("kst-pin"), hidden("kst-matches"),
    hidden("kst-sums"),
    element("div", "kst-legend"), tip, hidden("kst-hint"), liveRegion("ksv-live kst-live"));
  return root;
}

function about(header: Header) {
  const events = Object.entries(header.tables).reduce((sum, [, table]) => sum + table.rows, 0);
  const undrawn = header.undrawn ? `, ${count(header.undrawn)} without a time are not drawn` : "";
  return `${duration(header.span_ns)}, ${counted(events, "event")}${undrawn}`;
}
