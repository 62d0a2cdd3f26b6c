// The timeline: mount() draws a packed recording into an element. No other script is needed, and nothing is fetched.

import { Model } from "./data.js";
import { Controls } from "./controls.js";
import { Minimap } from "./minimap.js";
import { paintOverlay } from "./overlay.js";
import { paintLanes } from "./paint.js";
import { KEYS, fillSums, fillTip, legend, make, sentence } from "./panels.js";
import { Theme } from "./colors.js";
import { clean, count, counted, duration, moment } from "./text.js";
import { View } from "./view.js";

const HEIGHT = 420;
// Of the lanes' labels: the least and the most pixels, the most of the timeline's width, and what is beside their text.
const GUTTER = { least: 104, most: 260, share: 0.26, beside: 34 };

/**
 * Draw a recording into an element.
 *
 * @param {HTMLElement} element - Where; what it holds already is kept.
 * @param {{header: object, payload: ArrayBuffer|DataView|Uint8Array, height?: number,
 *          theme?: "auto"|"light"|"dark"}} options - What pack() returned; the most that lanes take of the height, in
 *          CSS pixels; which theme.
 * @returns {Timeline} With `ready`, a promise that is kept after the first paint, and `destroy()`.
 */
export function mount(element, options) { return new Timeline(element, options); }

class Timeline {
  constructor(element, { header, payload, height, theme }) {
    this.maximum = height ?? HEIGHT;
    // When the page mounted this and first painted it, and how long its frames took: for benchmarks and tests.
    this.frames = { count: 0, milliseconds: [], mounted: performance.now(), first: null };
    this.undo = [];
    this.root = frame(header, theme ?? "auto");
    element.append(this.root);
    const parts = new Map();
    this.part = (name) => {
      if (!parts.has(name)) parts.set(name, this.root.querySelector(`.kst-${name}`));
      return parts.get(name);
    };
    this.ready = this.open(header, payload).catch((problem) => this.fail(problem));
  }

  async open(header, payload) {
    const model = await Model.open(header, payload);
    if (this.isGone) return this;
    this.model = model;
    this.view = new View(model, new Theme(this.root));
    this.view.theme.read();
    this.body = this.part("body");
    this.canvas = this.part("canvas");
    this.minimap = new Minimap(this.part("map"), this.view, () => this.changed());
    this.controls = new Controls(this);
    this.part("legend").replaceChildren(...legend(this.view));
    this.labels();
    this.watch();
    this.resize();
    this.draw();
    return this;
  }

  /** Say what went wrong in the timeline's place. */
  fail(problem) {
    this.part("body").replaceChildren(make("div", "kst-problem", `The timeline cannot be shown: ${problem.message}`));
    return this;
  }

  destroy() {
    this.isGone = true;
    for (const undo of this.undo.splice(0)) undo();
    if (this.request) cancelAnimationFrame(this.request);
    this.root.remove();
    this.model = this.view = this.minimap = this.controls = null;
  }

  on(target, type, listener, options) {
    target.addEventListener(type, listener, options);
    this.undo.push(() => target.removeEventListener(type, listener, options));
  }

  watch() {
    const sized = new ResizeObserver(() => { if (this.resize()) this.changed(); });
    sized.observe(this.root);
    this.undo.push(() => sized.disconnect());
    const themed = () => this.retheme();
    const mutated = new MutationObserver(themed);
    for (const element of [document.documentElement, document.body]) {
      mutated.observe(element, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "theme",
        "data-vscode-theme-kind", "style"] });
    }
    this.undo.push(() => mutated.disconnect());
    this.on(matchMedia("(prefers-color-scheme: dark)"), "change", themed);
  }

  retheme() {
    this.view.theme.read();
    this.minimap.key = null;
    this.widest = 0;
    this.resize();
    this.changed();
  }

  /** Take the sizes from the page; whether any is new. */
  resize() {
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
    for (const [each, tall] of [[canvas, high], [this.part("ruler"), 24], [this.part("map"), 40]]) {
      each.width = Math.round(wide * dpr);
      each.height = Math.round(tall * dpr);
      each.style.width = each === canvas ? `${wide}px` : "";
      each.style.height = `${tall}px`;
    }
    this.scrollTo(view.scroll);
    return true;
  }

  /** How wide the lanes' labels are in the page's font; 0 while they are not seen. */
  widestLabel() {
    const range = document.createRange();
    const widths = [...this.part("gutter").querySelectorAll(".kst-name, .kst-note")].map((text) => {
      range.selectNodeContents(text);
      return range.getBoundingClientRect().width;
    });
    return Math.max(0, ...widths);
  }

  scrollTo(y) {
    this.view.scroll = Math.max(0, Math.min(y, this.view.layout.height - this.view.height));
    if (Math.abs(this.body.scrollTop - this.view.scroll) > 0.5) this.body.scrollTop = this.view.scroll;
  }

  labels() {
    const gutter = this.part("gutter");
    gutter.replaceChildren(...this.view.layout.lanes.map((lane) => {
      const button = make("button", `kst-lane kst-${lane.spec.group}`, make("span", "kst-fold", "▾"),
        make("span", "kst-name", clean(lane.spec.label)), make("span", "kst-note", clean(lane.spec.note)));
      button.type = "button";
      button.title = `${clean(lane.spec.label)} ${clean(lane.spec.note)}`;
      button.addEventListener("click", () => this.fold(lane));
      return button;
    }));
    this.placeLabels();
  }

  placeLabels() {
    const buttons = this.part("gutter").children;
    this.view.layout.lanes.forEach((lane, at) => {
      const button = buttons[at];
      button.style.top = `${lane.y}px`;
      button.style.height = `${lane.height}px`;
      button.setAttribute("aria-expanded", String(!lane.isFolded));
      button.firstChild.textContent = lane.isFolded ? "▸" : "▾";
    });
  }

  fold(lane, isFolded) {
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
    const context = this.canvas.getContext("2d");
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

  ruler() {
    const { view } = this, context = this.part("ruler").getContext("2d"), { theme } = view;
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
    for (const at of marks) {
      const x = Math.round(view.x(at));
      context.fillStyle = theme.strong;
      context.fillRect(x, 15, 1, 9);
      context.fillStyle = theme.soft;
      const text = moment(at, step), wide = view.measure(context, text, true);
      context.fillText(text, Math.min(Math.max(x + 3, 2), view.width - wide - 2), 9);
    }
  }

  /** Show the tooltip of what the pointer is on, at a place of the window; or nothing. */
  point(event, x, y) {
    const { view } = this, tip = this.part("tip");
    const isSame = event && view.hover && event.track === view.hover.track && event.index === view.hover.index;
    view.hover = event;
    if (!event) { this.hideTip(); return; }
    if (!isSame || tip.hidden) fillTip(tip, view, event);
    tip.hidden = false;
    // Over the whole page where the browser can: a notebook's output would cut it off.
    if (tip.showPopover && !tip.matches(":popover-open")) tip.showPopover();
    const { width, height } = tip.getBoundingClientRect(), root = this.root.getBoundingClientRect();
    const left = x + 14 + width > window.innerWidth ? Math.max(4, x - 14 - width) : x + 14;
    const top = y + 16 + height > window.innerHeight ? Math.max(4, y - 12 - height) : y + 16;
    tip.style.left = `${tip.showPopover ? left : left - root.left}px`;
    tip.style.top = `${tip.showPopover ? top : top - root.top}px`;
  }

  hideTip() {
    const tip = this.part("tip");
    if (tip.showPopover && tip.matches(":popover-open")) tip.hidePopover();
    tip.hidden = true;
  }

  /** Put the pinned event's box beside a place of the root; the root grows where the box would not fit. */
  placePin(box, x, y) {
    const root = this.root.getBoundingClientRect(), { width, height } = box.getBoundingClientRect();
    const left = x + 14 + width > root.width ? Math.max(4, x - 14 - width) : x + 14;
    const isBelow = y + 16 + height < root.height || y - 20 - height < 0;
    const top = isBelow ? Math.max(4, Math.min(y + 16, root.height - height - 8)) : y - 20 - height;
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
    this.root.style.minHeight = `${top + height + 8}px`;
  }

  /** Pin an event: its text stays, beside `x` of the root, and can be copied; null lets go. */
  pin(event, x) {
    const { view } = this, pinned = this.part("pin");
    view.pinned = event;
    this.hideTip();
    pinned.hidden = !event;
    if (!event) this.root.style.minHeight = "";
    if (event) {
      fillTip(pinned, view, event);
      const button = make("button", "kst-close", "×");
      button.type = "button";
      button.title = "Let go (Esc)";
      button.setAttribute("aria-label", "let go");
      button.addEventListener("click", () => { this.pin(null); this.body.focus({ preventScroll: true }); });
      pinned.append(button);
      const row = view.layout.rowOf(event.track), at = view.x(event.track.start[event.index]);
      const root = this.root.getBoundingClientRect(), canvas = this.canvas.getBoundingClientRect();
      const near = x ?? Math.min(Math.max(at, 0), view.width) + canvas.left - root.left;
      this.placePin(pinned, near, row.y + row.height - 8 - view.scroll + canvas.top - root.top);
      this.say(sentence(view, event));
    }
    this.changed();
  }

  /** Pin an event and bring it into sight. */
  go(event) {
    if (!event) return;
    this.view.reveal(event);
    this.placeLabels();
    this.resize();
    this.scrollTo(this.view.scroll);
    this.pin(event);
  }

  say(text) { this.part("live").textContent = text; }

  /** Search by name; an empty text ends the search. Returns how many events match. */
  search(text) {
    this.view.seek(text);
    const found = this.view.search?.count ?? 0;
    this.part("count").textContent = text ? counted(found, "match", "matches") : "";
    this.changed();
    return found;
  }

  step(forward) {
    const { view } = this;
    if (view.search) this.go(asEvent(view, view.search.step(view.pinned, forward)));
  }

  /** Select a stretch of time, in nanoseconds since the start, and show its sums; null drops it. */
  select(from, to) {
    const { view } = this, panel = this.part("sums");
    view.selection = from === null ? null : [from, to];
    if (view.selection) {
      const sums = fillSums(panel, view, () => this.select(null));
      this.say(`selected ${duration(sums.span)}: ${counted(sums.launches, "launch", "launches")}, ${
        duration(sums.host)} of the host, ${count(sums.kernels)} kernels, GPU busy ${duration(sums.busy)}`);
    } else panel.hidden = true;
    this.changed();
  }

  sums() { return this.view.sums(); }

  fit() { this.view.fit(); this.changed(); }

  show(t0, t1) { this.view.show(t0, t1); this.changed(); }
}

function asEvent(view, found) { return found ? view.event(found.track, found.index) : null; }

function frame(header, theme) {
  const root = make("div", `kst kst-${theme}`);
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", `timeline of ${clean(header.title)}`);
  const style = make("style", "", STYLE);
  const button = (name, text, title) => {
    const made = make("button", `kst-button kst-${name}`, text);
    made.type = "button";
    made.title = title;
    made.setAttribute("aria-label", title);
    return made;
  };
  const search = make("input", "kst-search");
  search.type = "search";
  search.placeholder = "Search names  /";
  search.setAttribute("aria-label", "search by name");
  const bar = make("div", "kst-bar", make("span", "kst-title", "Timeline"), make("span", "kst-about", about(header)));
  if (header.notice) bar.append(make("span", "kst-chip", header.notice));
  bar.append(search, make("span", "kst-count"), make("span", "kst-buttons",
    button("previous", "↑", "previous match (N)"), button("next", "↓", "next match (n)"),
    button("zoomin", "+", "zoom in (w)"), button("zoomout", "−", "zoom out (s)"), button("fit", "Fit", "show all (f)"),
    button("boxed", "▣", "zoom into a box: drag on the lanes (or Shift-drag)"), button("help", "?", "keys")));
  const lanes = make("div", "kst-lanes", make("div", "kst-gutter"), make("canvas", "kst-canvas"));
  const body = make("div", "kst-body", lanes);
  body.tabIndex = 0;
  body.setAttribute("data-lm-suppress-shortcuts", "true");
  body.setAttribute("role", "application");
  body.setAttribute("aria-label", "lanes: Enter chooses an event, Tab the next one, arrows move, f shows all, "
    + "? tells keys");
  const hidden = (tag, name) => { const made = make(tag, name); made.hidden = true; return made; };
  const live = make("div", "kst-live");
  live.setAttribute("aria-live", "polite");
  const help = hidden("div", "kst-keys");
  for (const [keys, meaning] of KEYS) help.append(make("kbd", "", keys), make("span", "", meaning));
  const tip = hidden("div", "kst-tip");
  tip.setAttribute("popover", "manual");
  const head = make("div", "kst-head", make("canvas", "kst-map"), make("canvas", "kst-ruler"));
  root.append(style, bar, help, head, body, hidden("div", "kst-sums"), make("div", "kst-legend"),
    tip, hidden("div", "kst-pin"), hidden("div", "kst-hint"), live);
  return root;
}

function about(header) {
  const events = Object.entries(header.tables).reduce((sum, [, table]) => sum + table.rows, 0);
  const undrawn = header.undrawn ? `, ${count(header.undrawn)} without a time are not drawn` : "";
  return `${duration(header.span_ns)}, ${counted(events, "event")}${undrawn}`;
}
