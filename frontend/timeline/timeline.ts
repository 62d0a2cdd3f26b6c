// The timeline: mount() draws a packed recording into an element. No other script is needed, and nothing is fetched.

import STYLE from "./timeline.css";
import {
  button, closest, contextOf, element, focusable, followTheme, keepShortcutsAway, liveRegion,
} from "../shared/dom";
import { DrawnView } from "../shared/drawn";
import { frame, keysOf, searchField } from "../shared/frame";
import { remember, remembered } from "../shared/memory";
import { hasInspector, inspectHere, offerTimeline } from "../shared/places";
import { clean, count, counted, duration, moment } from "../shared/text";
import { Theme } from "../shared/theme";
import { unpacked } from "../shared/inflate";
import { followCard } from "../card/card";
import type { Links } from "../card/links";
import type { Break } from "./axis";
import { type Description, describe } from "./describe";
import { Controls } from "./controls";
import type { Kept, Lane } from "./layout";
import { Minimap } from "./minimap";
import { Model } from "./model";
import { paintLanes, paintOverlay } from "./paint";
import { KEYS, Matches, fillSums, fillTip, legend, sentence } from "./panels";
import type { EventPlace } from "./search";
import { firstOf, keyOf } from "./specializations";
import { type TimelineEvent, View } from "./view";
import type { Header, Packed, TableName } from "./wire";

const HEIGHT = 420;
/** So many matches of a search are listed. */
const MOST_MATCHES = 200;
/** The reader's choice of what is folded and pinned lasts as long as the page. */
const LANES = "kernelscope:lanes";
/** A tooltip is over the whole page where the browser can: a notebook's output would cut it off. */
const canPop = "showPopover" in HTMLElement.prototype;
// Of the lanes' labels: the least and the most pixels, the most of the timeline's width, and what is beside their text.
const GUTTER = { least: 104, most: 260, share: 0.29, beside: 50 };

export interface Options extends Packed {
  /** The most that lanes take of the height, in CSS pixels. */
  height?: number;
  /** Opens an inspector beside the timeline where the page has none; whether that can be done. */
  inspect?: (key: string) => Promise<boolean>;
  /** Draws the call paths of the header; there where it has any. */
  mountFlame?: MountFlame;
}

/** The flame graph's own `mount`: the bundle of it comes with a recording that has call paths. */
export type MountFlame = (place: HTMLElement, options: { payload: BufferSource }) => { destroy(): void };

/** Draw a recording into an element; what it holds already is kept. `ready` is kept after the first paint. */
export function mount(host: HTMLElement, options: Options): Timeline {
  const timeline = new Timeline(host, options);
  timeline.undoing.add(offerTimeline({
    root: timeline.root, has: (key) => timeline.has(key), showCompile: (key) => timeline.goToFirst("compiles", key),
    showLaunches: (key) => timeline.goToFirst("launches", key),
  }), followCard(host, Object.assign(timeline.links, { flame: flameOf(options) })));
  return timeline;
}

/** What shows the recording's call paths in its card, where there are any. */
function flameOf({ header: { flame }, mountFlame }: Options): ((place: HTMLElement) => () => void) | undefined {
  return flame === undefined || !mountFlame ? undefined : (place) => {
    const view = mountFlame(place, { payload: unpacked(flame) });
    Object.assign(place, { kernelscope: view }); // for whoever looks into a page
    return () => view.destroy();
  };
}

export class Timeline extends DrawnView {
  readonly ready: Promise<this>;
  readonly root: HTMLElement;
  /** When the page mounted this, first painted it and had all of it, and how long its frames took: for benchmarks. */
  readonly frames: { count: number; milliseconds: number[]; mounted: number; first: number | null;
    whole: number | null };
  /** These are there once it is ready. */
  model!: Model;
  view!: View;
  body!: HTMLElement;
  canvas!: HTMLCanvasElement;
  private minimap: Minimap | null = null;
  controls!: Controls;
  private readonly maximum: number;
  /** Lanes' labels, by their keys. */
  private readonly gutter = new Map<string, LaneLabel>();
  /** The list of what the search has found, while it is shown. */
  private matches: Matches | null = null;
  private readonly parts = new Map<string, HTMLElement>();
  /** What Escape closes, what was opened last at the end: with each, how. */
  private readonly opened = new Map<string, () => void>();
  private widest = 0;

  /** What the card does with this timeline, and this timeline with the card. */
  readonly links: Links;
  private readonly inspect: Options["inspect"];

  constructor(host: HTMLElement, { header, payload, height, inspect }: Options) {
    super();
    this.inspect = inspect;
    this.links = {
      go: (table, row) => this.goTo(table as TableName, row), search: (name) => this.searchFor(name), open: inspect,
      lines: (rows) => this.searchFor(this.model?.facts.lines[rows[0]]?.at ?? "", rows),
    };
    this.maximum = height ?? HEIGHT;
    this.frames = { count: 0, milliseconds: [], mounted: performance.now(), first: null, whole: null };
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

  private async open(header: Header, payload: Packed["payload"]) {
    this.root.setAttribute("aria-busy", "true");
    this.body = this.part("body");
    this.canvas = this.canvasOf("canvas");
    if (header.overview) {
      this.look(Model.empty(header));
      this.view.overview = header.overview;
      this.draw();
      await painted();
    }
    const model = await Model.open(header, await payload);
    if (this.isGone) return this;
    this.look(model);
    this.minimap = new Minimap(this.canvasOf("map"), this.view, () => this.changed());
    this.controls = new Controls(this);
    this.part("legend").replaceChildren(...legend(this.view));
    this.watch();
    this.draw();
    this.frames.whole = performance.now();
    this.root.removeAttribute("aria-busy");
    return this;
  }

  /** Make what shows a model, as large as the page has room. */
  private look(model: Model) {
    this.model = model;
    this.view = new View(model, new Theme(this.root), remembered<Kept>(LANES, { folded: [], pinned: [] }));
    this.breaks();
    this.labels();
    this.resize();
  }

  /** Say what went wrong in the timeline's place. */
  private fail(problem: Error) {
    const said = `The timeline cannot be shown: ${problem.message}`;
    this.root.removeAttribute("aria-busy");
    this.part("body").replaceChildren(element("div", "ksv-problem kst-problem", said));
    return this;
  }

  override destroy() {
    super.destroy();
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
    this.view.retheme();
    this.minimap?.forget();
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
    view.layout.stick(high);
    this.placeLabels();
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
    const widths = this.view.layout.lanes.map(({ key, processes, around }) => {
      const [name, note] = [".kst-name", ".kst-note"].map((text) => {
        const found = this.gutter.get(key)?.box.querySelector(text);
        if (found) range.selectNodeContents(found);
        return found ? range.getBoundingClientRect().width : 0;
      });
      // A group's header has both in one line.
      return (processes.length ? name + note + 10 : Math.max(name, note)) + 9 * around.length;
    });
    return widths.reduce((most, width) => Math.max(most, width), 0);
  }

  scrollTo(y: number) {
    this.view.scroll = Math.max(0, Math.min(y, this.view.layout.height - this.view.height));
    if (Math.abs(this.body.scrollTop - this.view.scroll) > 0.5) this.body.scrollTop = this.view.scroll;
  }

  private labels() {
    this.gutter.clear();
    this.part("gutter").replaceChildren();
    this.placeLabels();
  }

  /** A lane's label, which folds it, and the button that pins it. */
  private label(lane: Lane): LaneLabel {
    const [label, note] = [clean(lane.spec.label), clean(lane.spec.note)], { key } = lane;
    const fold = button(`kst-lane kst-${lane.spec.group}`, "", `${label} ${note}`, () => {});
    fold.addEventListener("click", (event) => this.fold(this.laneOf(key), undefined, event.shiftKey));
    const sign = element("span", "kst-fold", "▾");
    sign.setAttribute("aria-hidden", "true");
    fold.removeAttribute("aria-label"); // it has its text
    fold.append(sign, element("span", "kst-name", label), element("span", "kst-note", note));
    const pin = button("kst-pinner", "", "pin", () => this.pinLane(this.laneOf(key)));
    pin.append(element("span", "kst-pushpin"));
    const box = element("div", "kst-label", fold, pin);
    box.dataset.lane = key;
    box.style.setProperty("--kst-deep", String(lane.around.length));
    const made = { box, fold, pin, sign };
    this.gutter.set(key, made);
    return made;
  }

  private laneOf(key: string): Lane {
    const found = this.view.layout.lanes.find((lane) => lane.key === key);
    if (!found) throw new Error(`there is no lane ${key}`);
    return found;
  }

  /** The lane whose label has the focus. */
  laneInFocus(): Lane | null {
    const key = closest(document.activeElement, ".kst-label")?.dataset.lane;
    return key === undefined ? null : this.laneOf(key);
  }

  private placeLabels() {
    const focused = document.activeElement, [stuck, others] = [this.part("stuck"), this.part("gutter")];
    for (const lane of this.view.layout.lanes) {
      const { box, fold, pin, sign } = this.gutter.get(lane.key) ?? this.label(lane);
      const name = nameOf(lane);
      box.style.top = `${lane.y}px`;
      box.style.height = `${lane.height}px`;
      fold.setAttribute("aria-expanded", String(!lane.isFolded));
      fold.title = `${name}: click to ${lane.isFolded ? "unfold" : "fold"} (l; with Shift all of its kind)`;
      sign.textContent = lane.isFolded ? "▸" : "▾";
      pin.setAttribute("aria-pressed", String(lane.isPinned));
      pin.title = lane.isPinned ? `${name}: unpin (p)` : `${name}: pin to the top (p)`;
      pin.setAttribute("aria-label", lane.isPinned ? `Unpin ${name}` : `Pin ${name} to the top`);
    }
    for (const [area, isStuck] of [[stuck, true], [others, false]] as const) {
      const wanted = this.view.layout.lanes.filter((lane) => lane.isStuck === isStuck)
        .flatMap((lane) => this.gutter.get(lane.key)?.box ?? []);
      // What is in its place stays there: moved elements lose the focus.
      if (wanted.length !== area.children.length || wanted.some((box, at) => box !== area.children[at])) {
        area.append(...wanted);
      }
    }
    if (focused instanceof HTMLElement && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  /** Fold a lane to one row, or unfold it; with `isAll` all lanes of its kind. */
  fold(lane: Lane, isFolded: boolean = !lane.isFolded, isAll = false) {
    for (const each of isAll ? this.view.layout.lanes.filter(({ spec }) => spec.group === lane.spec.group) : [lane]) {
      this.view.layout.fold(each, isFolded);
    }
    this.arranged();
    this.say(`${clean(lane.spec.label)}${isAll ? " and its kind" : ""} ${isFolded ? "folded" : "unfolded"}`);
  }

  /** Pin a lane to the top, where it stays in view, or let go of it. */
  pinLane(lane: Lane, isPinned: boolean = !lane.isPinned) {
    this.view.layout.pin(lane, isPinned);
    this.arranged();
    this.say(`${clean(lane.spec.label)} ${isPinned ? "pinned to the top" : "unpinned"}`);
  }

  private arranged() {
    remember(LANES, this.view.kept);
    this.placeLabels();
    this.widest = Math.max(this.widest, this.widestLabel());
    this.resize();
    this.scrollTo(this.view.scroll);
    this.changed();
  }

  draw() {
    const begun = performance.now();
    const context = contextOf(this.canvas);
    paintLanes(this.view, context);
    paintOverlay(this.view, context);
    this.ruler();
    this.placeBreaks();
    this.minimap?.draw();
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
      const text = moment(Math.round(view.model.axis.real(at) / step) * step, step), wide = view.measure(context, text, true);
      const left = Math.min(Math.max(x + 3, 2), view.width - wide - 2);
      if (view.model.axis.breaks.length) { // no stripes behind it
        context.fillStyle = theme.ground;
        context.fillRect(left - 2, 2, wide + 4, 13);
      }
      context.fillStyle = theme.soft;
      context.fillText(text, left, 9);
      taken = x + 3 + wide + 6;
    }
  }

  /** Show the tooltip of what the pointer is on, an event or a group's header, at a place of the window; or nothing. */
  point(event: TimelineEvent | null, x = 0, y = 0, group?: Description) {
    const { view } = this, tip = this.part("tip");
    const isSame = event && view.hover && event.track === view.hover.track && event.index === view.hover.index;
    view.hover = event;
    if (group) fillTip(tip, group);
    else if (!event) { this.hideTip(); return; }
    else if (!isSame || tip.hidden) fillTip(tip, describe(event, view.model));
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
    this.note("pin", event && (() => this.pin(null)));
    if (event) {
      fillTip(pinned, describe(event, view.model));
      const key = keyOf(view.model, event), { inspect } = this;
      if (key && (inspect || hasInspector(this.root, key))) {
        pinned.append(button("ksv-button kst-inspect", "Inspect", "open the inspector at this specialization (i)",
          () => { if (!inspectHere(this.root, key)) void inspect?.(key); }));
      }
      if (this.showLine(false)) {
        pinned.append(button("ksv-button kst-code", "Line", "show the line of code that made it (c)",
          () => this.showLine(true)));
      }
      pinned.append(button("kst-close", "×", "Let go (Esc)", () => {
        this.pin(null);
        this.body.focus({ preventScroll: true });
      }));
      this.describe(sentence(view, event));
    } else {
      this.describe("");
      this.links.mark?.(null);
    }
    this.changed();
  }

  /** Mark the chosen event's line of code in the card, and bring it into sight; whether the card has it. */
  showLine(isShown = true): boolean {
    const { pinned, model } = this.view, row = pinned ? model.lineOf(pinned.table, pinned.id) : -1;
    return this.links.mark?.(row < 0 ? null : row, isShown) ?? false;
  }

  /** Pin an event and bring it into sight. */
  go(event: TimelineEvent | null) {
    if (!event) return;
    this.view.reveal(event);
    this.resize();
    this.scrollTo(this.view.scroll);
    this.pin(event);
  }

  /** Pin a row of one of the tables, bring it into sight, and the timeline with it; whether it is drawn. */
  goTo(table: TableName, row: number): boolean {
    const event = this.frames.whole !== null && this.model?.tables[table] ? this.view.find(table, row) : null;
    this.go(event);
    if (event) this.root.scrollIntoView({ block: "nearest", behavior: "instant" });
    return event !== null;
  }

  /** Whether it has a compile and launches of a specialization. */
  has(key: string): { compile: boolean; launches: boolean } {
    const found = this.frames.whole !== null && this.model ? firstOf(this.model, key) : { compile: -1, launch: -1 };
    return { compile: found.compile >= 0, launches: found.launch >= 0 };
  }

  /** Pin the first compile or launch of a specialization, and mark what has its kernel's name. */
  goToFirst(table: "compiles" | "launches", key: string): void {
    const { compile, launch } = firstOf(this.model, key), row = table === "compiles" ? compile : launch;
    if (table === "launches") this.searchFor(this.model.table("launches").at("dispatcher_id", row));
    this.goTo(table, row);
  }

  /** Search for a name, for that of a kernel, or for lines of code, as if it had been typed; show its first match. */
  searchFor(name: string | number, lines?: number[]) {
    if (this.frames.whole === null) return;
    const text = typeof name === "string" ? name : this.model.facts.kernels[name]?.name ?? "";
    this.searchField.value = text;
    if (this.search(text, lines)) this.step(true);
    this.root.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  say(text: string) { this.part("live").textContent = text; }

  /** Say what is chosen; the lanes' description is the same. */
  private describe(text: string) {
    this.part("chosen").textContent = text || "nothing is chosen";
    this.say(text);
  }

  /** Something is open, and how Escape closes it; or it is closed. */
  note(name: string, close: (() => void) | null) {
    this.opened.delete(name);
    if (close) this.opened.set(name, close);
  }

  /** Close what was opened last; whether anything was open. */
  escape(): boolean {
    const last = [...this.opened].pop();
    last?.[1]();
    return last !== undefined;
  }

  /** Show the keys, or put them away. */
  help(isShown: boolean = Boolean(this.part("keys").hidden)) {
    this.part("keys").hidden = !isShown;
    this.part("help").setAttribute("aria-expanded", String(isShown));
    this.note("keys", isShown ? () => this.help(false) : null);
  }

  clearSearch() {
    this.searchField.value = "";
    this.search("");
  }

  /** Search by name, or for lines of code; an empty text ends the search. Returns how many events match. */
  search(text: string, lines?: number[]) {
    this.view.seek(text, lines);
    const found = this.view.search?.count ?? 0;
    const shown = this.part("count");
    shown.textContent = text ? counted(found, "match", "matches") : "";
    shown.removeAttribute("aria-label"); // it has its text
    shown.hidden = !text;
    this.note("search", text ? () => this.clearSearch() : null);
    if (!this.part("matches").hidden) this.listMatches(found > 0);
    this.changed();
    return found;
  }

  /** Draw a stretch of idle time as long as it was, or short again; without one, all short. */
  unfold(found: Break | null) {
    const at = this.view.model.axis.idle.findIndex((each) => each.from === found?.from);
    const had = this.part("breaks").contains(document.activeElement);
    this.view.unfold(found);
    this.minimap?.forget();
    this.clearSearch();
    this.select(null);
    this.labels();
    this.resize();
    this.pin(this.view.pinned);
    this.breaks();
    if (had) (this.part("breaks").children[at] as HTMLElement | undefined)?.focus({ preventScroll: true });
    if (found) this.say(`${duration(found.to - found.from)} of idle time drawn ${found.isOpen ? "short" : "as long as it was"}`);
    this.changed();
  }

  /** A button for each long stretch of idle time, over the ruler. */
  private breaks() {
    this.part("breaks").replaceChildren(...this.view.model.axis.idle.map((each) => {
      const lasted = duration(each.to - each.from);
      const title = each.isOpen ? `${lasted} in which nothing happened: click to draw it short (u)`
        : `${lasted} in which nothing happened: click to draw it as long as it was (u)`;
      const made = button("kst-break", "", title, () => this.unfold(each));
      made.setAttribute("aria-expanded", String(each.isOpen));
      return made;
    }));
  }

  /** Put them where they are now; those out of sight are not there. */
  private placeBreaks() {
    const { view } = this, buttons = this.part("breaks").children as HTMLCollectionOf<HTMLElement>;
    view.model.axis.idle.forEach((each, at) => {
      const left = view.x(each.at), right = view.x(each.at + each.shown), { style } = buttons[at];
      const isSeen = left < view.width - 4 && right > 4 && right - left > 3;
      const wide = each.isOpen ? 12 : Math.max(8, right - left);
      style.display = isSeen ? "" : "none";
      style.transform = `translateX(${Math.max(0, Math.min(left, view.width - wide))}px)`;
      style.width = `${wide}px`;
    });
  }

  /** Show what the search has found as a list below the lanes, by time or by duration; or put it away. */
  listMatches(isShown: boolean, isByDuration = false) {
    const { view } = this, panel = this.part("matches"), had = panel.contains(document.activeElement);
    const isOpen = isShown && Boolean(view.search?.count);
    panel.hidden = !isOpen;
    this.part("count").setAttribute("aria-expanded", String(isOpen));
    if (!isOpen || !view.search) {
      this.matches = null;
      this.note("matches", null);
      if (had) this.body.focus({ preventScroll: true });
      return;
    }
    if (!this.matches) this.note("matches", () => this.listMatches(false));
    const found = view.search.list(isByDuration, MOST_MATCHES).map(({ track, index }) => view.event(track, index));
    this.matches = new Matches(panel, view, found, isByDuration, {
      order: (wanted) => this.listMatches(true, wanted), go: (event) => this.go(event),
      close: () => this.listMatches(false),
    });
    if (view.pinned) this.matches.mark(view.pinned);
    if (had) this.matches.list.focus({ preventScroll: true });
  }

  /** Show the list of matches and give it the focus, or put it away. */
  toggleMatches() {
    this.listMatches(!this.matches);
    this.matches?.list.focus({ preventScroll: true });
  }

  /** The matches by time, or by duration. */
  orderMatches() { if (this.matches) this.listMatches(true, !this.matches.isByDuration); }

  /** The next match, or the one before: as the list has them where it is shown, else by time. */
  step(forward: boolean) {
    const { view, matches } = this;
    if (!view.search) return;
    const found = matches?.step(view.pinned, forward) ?? asEvent(view, view.search.step(view.pinned, forward));
    this.go(found);
    if (found) matches?.mark(found);
  }

  /** Select a stretch of time, in nanoseconds since the start, and show its sums; null drops it. */
  select(from: number | null, to?: number) {
    const { view } = this, panel = this.part("sums");
    view.selection = from === null ? null : [from, to ?? from];
    const sums = view.sums();
    this.note("sums", sums && (() => this.select(null)));
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

/** After what was drawn is on the screen; a page that is not seen paints nothing. */
function painted(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 100);
  });
}

/** What a lane is called: in a group, with the group's name. */
function nameOf({ spec, around }: Lane) {
  return clean([spec.label, spec.note, ...(around.length ? ["of", around[0].spec.label] : [])].filter(Boolean).join(" "));
}

/** A lane's label with its buttons. */
interface LaneLabel {
  box: HTMLElement;
  fold: HTMLElement;
  pin: HTMLElement;
  sign: HTMLElement;
}

function asEvent(view: View, found: EventPlace | null) { return found ? view.event(found.track, found.index) : null; }

function framed(header: Header) {
  const root = frame("kst", `timeline of ${clean(header.title)}`, STYLE);
  keepShortcutsAway(root);
  const tool = (name: string, text: string, title: string) => (
    button(`ksv-button kst-button kst-${name}`, text, title, () => {}));
  const matches = tool("count", "", "list the matches (m)"), help = tool("help", "?", "keys (?)");
  matches.hidden = true;
  for (const each of [matches, help]) each.setAttribute("aria-expanded", "false");
  const boxed = tool("boxed", "▣", "zoom into a box: drag on the lanes (b, or Shift-drag)");
  boxed.setAttribute("aria-pressed", "false");
  const bar = element("div", "ksv-bar kst-bar", element("span", "ksv-title", "Timeline"),
    element("span", "kst-about", about(header)));
  if (header.notice) bar.append(element("span", "ksv-chip kst-chip", header.notice));
  const search = searchField("ksv-search kst-search", "Search names  /", "search by name");
  search.title = "search by name (/), Enter shows the next match (n)";
  bar.append(search, matches,
    element("span", "ksv-buttons", tool("previous", "↑", "previous match (N)"), tool("next", "↓", "next match (n)"),
      tool("zoomin", "+", "zoom in (w)"), tool("zoomout", "−", "zoom out (s)"), tool("fit", "Fit", "show all (f)"), boxed, help));
  const chosen = element("div", "ksv-live kst-chosen", "nothing is chosen");
  chosen.id = `kst-chosen-${frames++}`;
  const lanesOf = header.processes ?? header.lanes;
  const canvas = picture("kst-canvas", `lanes: ${lanesOf.map((lane) => clean(lane.label)).join(", ")}`);
  canvas.setAttribute("aria-describedby", chosen.id);
  const lanes = element("div", "kst-lanes", element("div", "kst-stuck"), element("div", "kst-gutter"), canvas);
  const body = element("div", "ksv-drawn kst-body", lanes);
  focusable(body);
  body.setAttribute("role", "application");
  body.setAttribute("aria-label", "lanes: Enter chooses an event, Tab the next one, arrows move, f shows all, "
    + "? tells keys");
  body.setAttribute("aria-describedby", chosen.id);
  const hidden = (name: string) => {
    const made = element("div", name);
    made.hidden = true;
    return made;
  };
  const tip = hidden("ksv-tip kst-tip");
  tip.setAttribute("popover", "manual");
  const head = element("div", "kst-head", 
    picture("kst-map", "how busy host and GPU were: drag the frame to move in time (a, d; w and s zoom)"),
    element("div", "kst-times", picture("kst-ruler", "ruler: drag to sum up a stretch of time (r)"),
      element("div", "kst-breaks")));
  root.append(bar, keysOf("ksv-keys kst-keys", KEYS), head, body, hidden("kst-pin"), hidden("kst-matches"),
    hidden("kst-sums"),
    element("div", "kst-legend"), chosen, tip, hidden("kst-hint"), liveRegion("ksv-live kst-live"));
  return root;
}

let frames = 0;

/** A canvas, with what it is called. */
function picture(name: string, label: string): HTMLCanvasElement {
  const made = element("canvas", name);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", label);
  if (name !== "kst-canvas") made.title = label; // the lanes have a tooltip of their own
  return made;
}

function about(header: Header) {
  const events = Object.entries(header.tables).reduce((sum, [, table]) => sum + table.rows, 0);
  const undrawn = header.undrawn ? `, ${count(header.undrawn)} without a time are not drawn` : "";
  return `${duration(header.span_ns)}, ${counted(events, "event")}${undrawn}`;
}
