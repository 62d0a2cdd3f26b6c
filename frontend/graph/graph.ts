// The picture of a graph: mount() draws what Python laid out, with boxes that open. Nothing is fetched or asked for.

import STYLE from "./graph.css";
import { button, element, focusable } from "../shared/dom";
import { DrawnView } from "../shared/drawn";
import { frame, keysOf, searchField } from "../shared/frame";
import { inflatedText } from "../shared/inflate";
import { counted } from "../shared/text";
import { Drawing, svg } from "./draw";
import { type Placed, placed } from "./place";
import { Relations } from "./relations";
import { Sight, followPointer } from "./sight";
import type { Graph, Kind, Packed } from "./wire";

const HEIGHT = 560;
const KEYS = [
  ["drag, Shift+arrows", "move"],
  ["wheel, + −", "zoom, once the picture has the focus; with Ctrl always"],
  ["f, 0", "fit all; actual size"],
  ["click, arrows", "choose a node: what is before and after it stands out"],
  ["Enter, double click", "open or close a box"],
  ["o", "open or close all boxes"],
  ["/", "search; Enter and Shift+Enter step through what was found"],
  ["Esc", "choose nothing; leave the picture"],
];
const ARROWS: Record<string, readonly [number, number] | undefined> = {
  ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0],
};

export interface Options {
  /** What Python packed. */
  payload: BufferSource;
  /** The most that the picture takes of the height, in CSS pixels. */
  height?: number;
}

/** Draw a graph into an element; what it holds already is kept. `ready` is kept after the first paint. */
export function mount(host: HTMLElement, options: Options): GraphView { return new GraphView(host, options); }

export class GraphView extends DrawnView {
  readonly ready: Promise<this>;
  readonly root: HTMLElement;
  /** When the page mounted this and when it was painted: for benchmarks and tests. */
  readonly times: { mounted: number; painted: number | null };
  /** These are there once it is ready. */
  facts!: Graph;
  opened!: Set<number>;
  placed!: Placed;
  view!: Sight;
  body!: HTMLElement;
  canvas!: SVGSVGElement;
  chosen: number | undefined;
  found: number[] = [];
  private readonly most: number;
  /** Nodes that can be opened. */
  private boxes!: number[];
  private relations!: Relations;
  private drawing!: Drawing;
  private sight!: Sight;
  private wide?: number;
  /** Which of what was found was gone to last, and what the tooltip is of. */
  private at = -1;
  private hovered?: number | null;
  private search!: HTMLInputElement;
  private count!: HTMLElement;
  private all!: HTMLButtonElement;
  private keys!: HTMLElement;
  private tip!: HTMLElement;
  private panel!: HTMLElement;
  private live!: HTMLElement;

  constructor(host: HTMLElement, { payload, height }: Options) {
    super();
    this.most = height ?? HEIGHT;
    this.times = { mounted: performance.now(), painted: null };
    this.root = frame("ksg", "KernelScope graph", STYLE);
    host.append(this.root);
    this.ready = this.open(payload).catch((problem: Error) => {
      this.root.append(element("div", "ksv-problem ksg-problem", `The graph cannot be shown: ${problem.message}`));
      return this;
    });
  }

  private async open(payload: BufferSource): Promise<this> {
    this.facts = read(await inflatedText(payload));
    if (this.isGone) return this;
    this.opened = new Set(this.facts.opened);
    this.boxes = this.facts.nodes.flatMap(({ canOpen }, number) => (canOpen ? [number] : []));
    this.relations = new Relations(this.facts);
    this.fill();
    this.drawing = new Drawing(this.facts, this.root);
    this.canvas.append(this.drawing.root);
    this.sight = new Sight(this.body, () => this.changed());
    this.view = this.sight;
    this.place();
    this.resize();
    const [first] = this.placed.nodes.values();
    if (first) this.sight.begin(first);
    this.listen();
    this.draw();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    this.times.painted = performance.now();
    return this;
  }

  // ---- The frame around the picture ----

  private fill() {
    const { facts } = this;
    this.search = searchField("ksv-search ksg-search", "Search nodes", "Search nodes");
    this.count = element("span", "ksg-count");
    this.all = button("ksv-button ksg-button ksg-all", "", "", () => this.openAll());
    const help = button("ksv-button ksg-button ksg-help", "?", "Keys", () => {
      this.keys.hidden = !this.keys.hidden;
      help.setAttribute("aria-expanded", String(!this.keys.hidden));
    });
    const bar = element("div", "ksv-bar ksg-bar-top", element("span", "ksv-title", facts.title),
      element("span", "ksg-about", facts.about));
    for (const note of facts.notes) bar.append(element("span", "ksv-chip", note));
    bar.append(this.search, this.count, element("span", "ksv-buttons", this.all,
      button("ksv-button ksg-button ksg-zoomin", "+", "Zoom in", () => this.sight.zoom(1.4)),
      button("ksv-button ksg-button ksg-zoomout", "−", "Zoom out", () => this.sight.zoom(1 / 1.4)),
      button("ksv-button ksg-button ksg-fit", "Fit", "Show all of it", () => this.sight.fit()), help));
    this.keys = keysOf("ksv-keys", KEYS);
    this.canvas = svg("svg", { class: "ksg-canvas", "aria-hidden": "true" });
    this.tip = element("div", "ksv-tip ksg-tip");
    this.tip.hidden = true;
    this.panel = element("div", "ksv-tip ksg-facts");
    this.panel.hidden = true;
    this.body = element("div", "ksv-drawn ksg-body-area", this.canvas, this.panel, this.tip);
    focusable(this.body);
    this.body.setAttribute("role", "application");
    this.body.setAttribute("aria-roledescription", "graph");
    this.body.setAttribute("aria-label", `${facts.title}, ${facts.about}. Arrow keys choose nodes.`);
    this.live = element("div", "ksv-live ksg-live");
    this.live.setAttribute("role", "status");
    this.root.append(bar, this.keys, this.body, this.legend(), this.live);
    if (!this.facts.nodes.length) this.body.append(element("div", "ksv-problem ksg-problem", "There is no node in it"));
    this.all.hidden = !this.boxes.length;
  }

  /** The kinds that there are, each with its sign, color and word. */
  private legend() {
    const { kinds, nodes } = this.facts, numbers = new Map<string, number>(), looks = new Map<string, Kind>();
    for (const { kind } of nodes) {
      const { word } = kinds[kind];
      looks.set(word, kinds[kind]);
      numbers.set(word, (numbers.get(word) ?? 0) + 1);
    }
    return element("div", "ksg-legend", ...[...looks].map(([word, { color, sign, plural }]) => {
      const number = numbers.get(word) ?? 0;
      const drawn = svg("svg", { viewBox: "-3 -3 22 22", width: 16, height: 16, "aria-hidden": "true" },
        svg("rect", { x: -3, y: -3, width: 22, height: 22, rx: 5, fill: color }),
        svg("path", { d: sign, class: "ksg-sign" }));
      return element("span", "", drawn, counted(number, word, plural));
    }));
  }

  private listen() {
    const sized = new ResizeObserver(() => { if (this.resize()) this.changed(); });
    sized.observe(this.body);
    this.undoing.add(() => sized.disconnect());
    followPointer(this.body, this.sight, this.undoing, {
      clicked: (target) => this.clicked(target),
      doubled: (target) => this.toggle(numberOf(target)),
      hovered: (target, x, y) => this.hover(numberOf(target), x, y),
    });
    this.undoing.listen(this.body, "keydown", (event) => this.key(event));
    this.undoing.listen(this.search, "input", () => this.find(this.search.value));
    this.undoing.listen(this.search, "keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key !== "Escape") return;
      this.search.value = "";
      this.find("");
      this.body.focus({ preventScroll: true });
    });
  }

  // ---- Drawing ----

  private place() {
    this.placed = placed(this.facts, this.opened);
    this.sight.size = { width: Math.max(this.placed.width, 1), height: Math.max(this.placed.height, 1) };
    this.drawing.show(this.placed);
    const isAll = this.boxes.every((number) => this.opened.has(number));
    this.all.textContent = isAll ? "Close all" : "Open all";
    this.all.title = isAll ? "Close all boxes" : "Open all boxes";
    this.mark();
  }

  /** Take the size from the page; whether it is new. */
  private resize() {
    const high = `${Sight.heightOf(this.sight.size, this.body.clientWidth || 600, this.most)}px`;
    const isNew = this.wide !== this.body.clientWidth;
    this.wide = this.body.clientWidth;
    // It grows with what opens, and does not shrink under the reader's hand.
    if (isNew || parseInt(high, 10) > (parseInt(this.body.style.height, 10) || 0)) this.body.style.height = high;
    return isNew;
  }

  draw() {
    this.drawing.root.setAttribute("transform", this.sight.transform);
    this.drawing.see(...this.sight.part);
    this.canvas.classList.toggle("ksg-far", this.sight.farness > 0);
    this.canvas.classList.toggle("ksg-farthest", this.sight.farness > 1);
  }

  // ---- Boxes ----

  toggle(number: number | null) {
    if (number === null || !this.facts.nodes[number]?.canOpen) return;
    this.setOpen(number, new Set(this.opened.has(number) ? [...this.opened].filter((each) => each !== number)
      : [...this.opened, number]));
    this.say(`${this.facts.nodes[number].title} ${this.opened.has(number) ? "opened" : "closed"}`);
  }

  private openAll() {
    const isAll = this.boxes.every((number) => this.opened.has(number));
    this.setOpen(this.chosen ?? null, new Set(isAll ? [] : this.boxes));
  }

  /** Open these boxes and no others; what is chosen, or was clicked at, stays where it is on the screen. */
  private setOpen(anchor: number | null, opened: Set<number>) {
    const before = this.placed.nodes.get(anchor ?? -1);
    this.opened = opened;
    if (this.chosen !== undefined) this.chosen = this.shownOf(this.chosen);
    this.place();
    const after = this.placed.nodes.get(anchor ?? -1);
    if (before && after) {
      this.sight.pan((before.x + before.width / 2 - after.x - after.width / 2) * this.sight.scale,
        (before.y - after.y) * this.sight.scale);
    }
    this.resize();
    this.changed();
  }

  /** The node itself, or the outermost closed box around it. */
  private shownOf(number: number) {
    return this.relations.around(number).filter((each) => !this.opened.has(each)).at(-1) ?? number;
  }

  // ---- Choosing ----

  private clicked(target: EventTarget | null) {
    const toggled = target instanceof Element ? target.closest<SVGElement>("[data-toggle]") : null;
    if (toggled) this.toggle(Number(toggled.dataset.toggle));
    else this.choose(numberOf(target));
  }

  choose(number: number | null, isShown = false) {
    this.chosen = number ?? undefined;
    const frame = this.placed.nodes.get(number ?? -1);
    if (isShown && frame) this.sight.reveal(frame);
    this.mark();
    this.hover(null);
    if (number !== null) this.say(this.sentence(number));
  }

  /** Show what is chosen and found, what is before and after it, and its facts. */
  private mark() {
    const { chosen } = this, isChosen = chosen !== undefined, found = new Set(this.found);
    const { before, after } = isChosen ? this.relations.of(chosen)
      : { before: new Set<number>(), after: new Set<number>() };
    const around = new Set(isChosen ? this.relations.around(chosen) : []);
    this.canvas.classList.toggle("ksg-picked", isChosen);
    this.drawing.mark((number) => [
      number === chosen && "ksg-chosen", found.has(number) && "ksg-found",
      (number === chosen || before.has(number) || after.has(number) || around.has(number)) && "ksg-near"]);
    this.drawing.stress(!isChosen ? [] : this.placed.lines.filter(({ first, then }) => (
      (before.has(first) && (before.has(then) || then === chosen || around.has(then)))
      || (after.has(then) && (after.has(first) || first === chosen || around.has(first))))));
    this.panel.hidden = !isChosen;
    if (isChosen) this.panel.replaceChildren(...this.details(chosen, before.size, after.size));
  }

  private details(number: number, before: number, after: number) {
    const node = this.facts.nodes[number];
    const close = button("ksv-button ksg-button ksg-close", "×", "Choose nothing", () => this.choose(null));
    const list = element("dl", ""), order = `${counted(before, "node")} before it, ${after} after it`;
    for (const [label, text] of [...node.facts, ["order", order]]) {
      list.append(element("dt", "", label), element("dd", "", text));
    }
    const parts: HTMLElement[] = [element("b", "", node.title), close, list];
    if (node.canOpen) {
      const isOpen = this.opened.has(number);
      parts.push(button("ksv-button ksg-button ksg-open", isOpen ? "Close the box" : "Open the box", "",
        () => this.toggle(number)));
    } else if (node.isBox) parts.push(element("div", "ksg-soft", "Too much is in it to be drawn here."));
    return parts;
  }

  private hover(number: number | null, x = 0, y = 0) {
    this.tip.hidden = number === null || number === this.chosen;
    if (number === null || this.tip.hidden) return;
    if (this.hovered !== number) {
      const { title, facts } = this.facts.nodes[number], list = element("dl", "");
      for (const [label, text] of facts) list.append(element("dt", "", label), element("dd", "", text));
      this.tip.replaceChildren(element("b", "", title), list);
      this.hovered = number;
    }
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.sight.width - wide - 6))}px`;
    this.tip.style.top = `${Math.max(4, y + 16 + high > this.sight.height ? y - high - 10 : y + 16)}px`;
  }

  private sentence(number: number) {
    const { title, line, time } = this.facts.nodes[number], { before, after } = this.relations;
    const beside = `${counted((before.get(number) ?? []).length, "edge")} in, ${(after.get(number) ?? []).length} out`;
    return [line || title, time, beside].filter(Boolean).join(", ");
  }

  private say(text: string) { this.live.textContent = text; }

  // ---- Search and keys ----

  private find(text: string) {
    const wanted = text.trim().toLowerCase();
    this.found = !wanted ? [] : this.facts.nodes.flatMap(({ key, isDrawn }, number) => (
      isDrawn && key.includes(wanted) ? [number] : []));
    this.at = -1;
    this.count.textContent = wanted ? counted(this.found.length, "node") : "";
    this.mark();
  }

  private step(by: number) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length + (this.at < 0 && by < 0 ? 1 : 0)) % this.found.length;
    const number = this.found[this.at], closed = this.relations.around(number).filter((each) => !this.opened.has(each));
    if (closed.length) this.setOpen(null, new Set([...this.opened, ...closed]));
    this.count.textContent = `${this.at + 1} of ${this.found.length}`;
    this.choose(number, true);
  }

  private key(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.body) return;
    const arrow = ARROWS[event.key];
    // A letter that means nothing here would mean something to the notebook: it deletes, pastes and merges cells.
    if (event.key !== "Tab") event.stopPropagation();
    if (arrow && event.shiftKey) this.sight.pan(arrow[0] * -60, arrow[1] * -60);
    else if (arrow) this.walk(arrow);
    else if (!this.press(event.key)) return;
    event.preventDefault();
  }

  private walk(arrow: readonly [number, number]) {
    const { placed: { nodes }, chosen, relations } = this;
    const [first] = nodes.keys(), next = chosen === undefined ? first : relations.beside(chosen, arrow, nodes);
    if (next !== null && next !== undefined) this.choose(next, true);
  }

  private press(key: string) {
    const { sight, chosen } = this;
    if (key === "+" || key === "=") sight.zoom(1.3);
    else if (key === "-") sight.zoom(1 / 1.3);
    else if (key === "f") sight.fit();
    else if (key === "0") sight.center(1);
    else if (key === "o") this.openAll();
    else if (key === "/") this.search.focus();
    else if (key === "Enter" || key === " ") this.toggle(chosen ?? null);
    else if (key === "Escape" && chosen !== undefined) this.choose(null);
    else if (key === "Escape") this.body.blur();
    else return false;
    return true;
  }
}

/** What Python packed, with names. */
function read(text: string): Graph {
  const packed: Packed = JSON.parse(text);
  const drawn = new Set(packed.levels.flatMap(({ spots }) => spots.map(([number]) => number)));
  const insides = new Set(packed.levels.filter(({ spots }) => spots.length).map(({ place }) => place[0]));
  const widths = new Map(packed.levels.flatMap(({ spots, width }) => (
    spots.map(([number]): [number, number] => [number, width]))));
  const nodes = packed.nodes.map(([kind, around, isBox, title, detail, time, share, line, facts], number) => ({
    kind, around, isBox, title, detail, time, share, line, facts, width: widths.get(number),
    isDrawn: drawn.has(number), canOpen: insides.has(number),
    key: [kind, title, ...facts.map((pair) => pair[1])].join("\n").toLowerCase(),
  }));
  const levels = packed.levels.map((level) => ({
    ...level, lines: level.lines.map(([first, then, out, into, lane, isBackward, bends]) => (
      { first, then, out, into, lane, isBackward, bends })),
  }));
  return { ...packed, nodes, levels };
}

function numberOf(target: EventTarget | null): number | null {
  const found = target instanceof Element ? target.closest<HTMLElement | SVGElement>("[data-node]") : null;
  return found ? Number(found.dataset.node) : null;
}
