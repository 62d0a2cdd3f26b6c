// The flame graph: mount() draws what Python packed, on a canvas. Nothing is fetched or asked for.

import STYLE from "./flame.css";
import { button, contextOf, element, focusable, followTheme } from "../shared/dom";
import { DrawnView } from "../shared/drawn";
import { frame, keysOf, searchField } from "../shared/frame";
import { FRAME_COLORS } from "../shared/generated";
import { inflatedText } from "../shared/inflate";
import { remember, remembered } from "../shared/memory";
import { counted, duration, percent } from "../shared/text";
import { Painter, ROW, type Sight, nodeAt } from "./paint";
import { Tree, exactly, valueOf } from "./tree";

const HEIGHT = 460;
/** The reader's choice of a metric lasts as long as the page. */
const CHOICE = "kernelscope:flame";
/** So many of the innermost callers of what is zoomed to are listed. */
const CRUMBS = 4;
const FONT = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const KEYS = [
  ["click, Enter", "zoom to a frame: it and what it called take the whole width"],
  ["Backspace, Esc", "back to what was shown before"],
  ["Home", "show all"],
  ["↓ ↑", "go to what a frame called, and to what called it"],
  ["← →", "go to the frames beside it"],
  ["/", "search; Enter and Shift+Enter step through what was found"],
  ["Esc", "leave the picture, where all is shown"],
];

export interface Options {
  /** What Python packed. */
  payload: BufferSource;
  /** The most that frames take of the height, in CSS pixels. */
  height?: number;
}

/** Draw a flame graph into an element; what it holds already is kept. `ready` is kept after the first paint. */
export function mount(host: HTMLElement, options: Options): FlameView { return new FlameView(host, options); }

export class FlameView extends DrawnView {
  readonly ready: Promise<this>;
  readonly root = frame("ksf", "KernelScope flame graph", STYLE);
  /** How long frames took: for benchmarks and tests. */
  readonly frames: { milliseconds: number[] } = { milliseconds: [] };
  /** These are there once it is ready. */
  tree!: Tree;
  sight!: Sight;
  view?: Sight;
  readonly canvas = element("canvas", "ksf-canvas");
  private readonly body = focusable(element("div", "ksv-drawn ksf-body"));
  private readonly room = element("div", "ksf-room");
  private readonly tip = element("div", "ksv-tip ksf-tip");
  private readonly crumbs = element("nav", "ksf-crumbs");
  private readonly live = element("div", "ksv-live");
  private readonly said = element("span", "ksf-said");
  private readonly search = searchField("ksv-search", "Search functions, files, kernels", "Search the flame graph");
  private readonly choices = new Map<string, HTMLButtonElement>();
  private readonly most: number;
  private painter!: Painter;
  private back!: HTMLButtonElement;
  private keys!: HTMLElement;
  private before: number[] = [];
  private matches: number[] = [];
  private at = -1;

  constructor(host: HTMLElement, { payload, height }: Options) {
    super();
    this.most = height ?? HEIGHT;
    host.append(this.root);
    this.ready = this.open(payload).catch((problem: Error) => {
      this.root.append(element("div", "ksv-problem", `The flame graph cannot be shown: ${problem.message}`));
      return this;
    });
  }

  private async open(payload: BufferSource): Promise<this> {
    this.tree = new Tree(JSON.parse(await inflatedText(payload)));
    if (this.isGone) return this;
    const { metrics } = this.tree.packed, chosen = remembered(CHOICE, { metric: "" }).metric;
    const metric = metrics.some(([key]) => key === chosen) ? chosen : metrics[0][0];
    this.sight = { layout: this.tree.layout(metric), metric, from: 0, to: 1, zoomed: 0, width: 0, height: 0, scroll: 0,
      dpr: 1, found: null, hovered: -1, chosen: -1 };
    this.fill();
    this.painter = new Painter(this.tree, this.root);
    this.show(0);
    this.listen();
    this.draw();
    this.view = this.sight;
    return this;
  }

  // ---- The frame around the picture ----

  private fill() {
    const { metrics, kinds, remark } = this.tree.packed;
    const group = element("span", "ksf-metrics");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "What widths stand for");
    for (const [key, label, meaning] of metrics) {
      const made = button("ksv-button ksf-metric", label, meaning, () => this.measure(key));
      this.choices.set(key, made);
      group.append(made);
    }
    this.back = button("ksv-button ksf-button", "Back", "Back to what was shown before", () => this.goBack());
    const help = button("ksv-button ksf-button", "?", "Keys", () => {
      this.keys.hidden = !this.keys.hidden;
      help.setAttribute("aria-expanded", String(!this.keys.hidden));
    });
    help.setAttribute("aria-expanded", "false");
    this.keys = keysOf("ksv-keys", KEYS);
    this.crumbs.setAttribute("aria-label", "Callers of what is shown");
    this.canvas.setAttribute("aria-hidden", "true");
    this.body.setAttribute("role", "application");
    this.body.setAttribute("aria-roledescription", "flame graph");
    this.body.append(this.canvas, this.room);
    this.tip.setAttribute("popover", "manual");
    this.live.setAttribute("role", "status");
    this.said.setAttribute("role", "status");
    const there = new Set(this.tree.frames.map(({ kind }) => kind)), legend = element("div", "ksf-legend");
    for (const [kind, color] of Object.entries(FRAME_COLORS)) {
      if (!there.has(kind)) continue;
      const sign = element("span", "ksf-sign");
      sign.style.background = color;
      legend.append(element("span", "", sign, kinds[kind]));
    }
    if (remark) legend.append(element("span", "", remark));
    this.root.append(element("div", "ksv-bar", group, this.search, this.said,
      element("span", "ksv-buttons", this.back, help)), this.keys, this.crumbs, this.body, legend, this.live, this.tip);
  }

  private listen() {
    const { undoing, body } = this;
    const sized = new ResizeObserver(() => { if (this.resize()) this.changed(); });
    sized.observe(body);
    undoing.add(() => sized.disconnect(), followTheme(() => {
      this.painter.retheme();
      this.changed();
    }));
    undoing.listen(body, "scroll", () => {
      this.sight.scroll = body.scrollTop;
      this.hideTip();
      this.changed();
    });
    undoing.listen(body, "pointermove", (event) => this.hover(this.nodeOf(event), event));
    undoing.listen(body, "pointerleave", () => this.hover(-1));
    undoing.listen(body, "click", (event) => {
      const node = this.nodeOf(event);
      this.choose(-1);
      if (node >= 0) this.zoom(node);
    });
    undoing.listen(body, "keydown", (event) => this.key(event));
    undoing.listen(body, "blur", () => this.choose(-1));
    undoing.listen(this.search, "input", () => this.find(this.search.value));
    undoing.listen(this.search, "keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key !== "Escape") return;
      this.search.value = "";
      this.find("");
      body.focus({ preventScroll: true });
    });
  }

  // ---- What is shown ----

  /** Have widths stand for another metric; what is zoomed to stays, where it weighs anything. */
  measure(metric: string) {
    this.sight.metric = metric;
    this.sight.layout = this.tree.layout(metric);
    this.before = [];
    remember(CHOICE, { metric });
    let node = this.sight.zoomed;
    while (node > 0 && !this.sight.layout.total[node]) node = this.tree.parent[node];
    this.find(this.search.value);
    this.show(node);
  }

  /** Have a frame, and what it called, take the whole width. */
  zoom(node: number) {
    if (node === this.sight.zoomed) return;
    this.before.push(this.sight.zoomed);
    this.show(node);
  }

  goBack() {
    const before = this.before.pop() ?? (this.sight.zoomed ? 0 : undefined);
    if (before !== undefined) this.show(before);
  }

  private show(node: number) {
    const { sight, tree } = this, { left, total, rows } = sight.layout;
    sight.zoomed = node;
    [sight.from, sight.to] = [left[node], left[node] + Math.max(total[node], 1e-9)];
    sight.hovered = -1;
    this.hideTip();
    for (const [key, choice] of this.choices) choice.setAttribute("aria-pressed", String(key === sight.metric));
    this.back.disabled = !this.before.length && !node;
    this.drawCrumbs();
    this.room.style.height = `${rows.length * ROW}px`;
    this.resize();
    const top = tree.depth[node] * ROW;
    if (top < sight.scroll || top + 3 * ROW > sight.scroll + sight.height) {
      this.body.scrollTop = Math.max(0, top - 2 * ROW);
      sight.scroll = this.body.scrollTop;
    }
    const what = this.sentence(node);
    this.body.setAttribute("aria-label", `Flame graph of ${this.label}: ${what}. Arrow keys go from frame to frame.`);
    this.say(what);
    this.changed();
  }

  private get label() { return this.tree.packed.metrics.find(([key]) => key === this.sight.metric)?.[1] ?? ""; }

  private drawCrumbs() {
    const path = this.tree.pathTo(this.sight.zoomed), parts: (HTMLElement | string)[] = [];
    const shown = path.length <= CRUMBS + 2 ? path : [0, -1, ...path.slice(-CRUMBS)];
    for (const node of shown) {
      if (parts.length) parts.push(element("span", "ksf-gap", "›"));
      const label = node < 0 ? `${path.length - 1 - CRUMBS} more` : this.tree.frameOf(node).label;
      parts.push(node < 0 || node === this.sight.zoomed ? element("span", "ksf-crumb", label)
        : button("ksf-crumb", label, "", () => this.zoom(node)));
    }
    const { metric, zoomed, layout: { total } } = this.sight, value = valueOf(metric, total[zoomed]);
    parts.push(element("span", "ksf-soft", zoomed ? `${value}, ${percent(this.share(zoomed))}` : value));
    this.crumbs.replaceChildren(...parts);
  }

  /** Take the sizes from the page; whether any is new. */
  private resize(): boolean {
    const { sight, canvas } = this, dpr = window.devicePixelRatio || 1;
    const high = Math.min(this.most, sight.layout.rows.length * ROW);
    this.body.style.height = `${high + 1}px`; // its upper border is one pixel
    const wide = this.body.clientWidth;
    if (!wide || (sight.width === wide && sight.height === high && sight.dpr === dpr && canvas.width)) return false;
    Object.assign(sight, { width: wide, height: high, dpr });
    canvas.width = Math.round(wide * dpr);
    canvas.height = Math.round(high * dpr);
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    return true;
  }

  draw() {
    if (!this.sight.width) return;
    const begun = performance.now();
    this.painter.paint(contextOf(this.canvas), this.sight, FONT);
    this.frames.milliseconds.push(performance.now() - begun);
    if (this.frames.milliseconds.length > 1000) this.frames.milliseconds.shift();
  }

  // ---- Pointer and keys ----

  private nodeOf(event: MouseEvent): number {
    const box = this.canvas.getBoundingClientRect(), { from, to, width, scroll, layout } = this.sight;
    const x = event.clientX - box.left, depth = Math.floor((event.clientY - box.top + scroll) / ROW);
    return x < 0 || x >= width ? -1 : nodeAt(layout, depth, from + (x / width) * (to - from));
  }

  private hover(node: number, event?: MouseEvent) {
    if (node < 0) this.hideTip();
    else if (event) this.showTip(node, event.clientX + 14, event.clientY + 16, event.clientY - 10);
    if (node === this.sight.hovered) return;
    this.sight.hovered = node;
    this.body.classList.toggle("ksf-over", node >= 0);
    this.changed();
  }

  /** Mark a frame, bring it into sight and say what it is. */
  choose(node: number) {
    const { sight, tree } = this;
    if (node === sight.chosen) return;
    sight.chosen = node;
    this.changed();
    this.hideTip();
    if (node < 0) return;
    const { left, total } = sight.layout, y = tree.depth[node] * ROW;
    if (left[node] + total[node] <= sight.from || left[node] >= sight.to) {
      this.before.push(sight.zoomed);
      this.show(tree.parent[node]);
    }
    if (y < sight.scroll) this.body.scrollTop = y;
    else if (y + ROW > sight.scroll + sight.height) this.body.scrollTop = y + ROW - sight.height;
    sight.scroll = this.body.scrollTop;
    const box = this.canvas.getBoundingClientRect();
    const x = Math.max(0, (left[node] - sight.from) / (sight.to - sight.from)) * sight.width;
    const top = box.top + y - sight.scroll;
    this.showTip(node, box.left + x + 8, top + ROW + 2, top - 2);
    this.say(this.sentence(node));
  }

  private key(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.body) return;
    // A letter that means nothing here would mean something to the notebook: it deletes, pastes and merges cells.
    if (event.key !== "Tab") event.stopPropagation();
    if (this.press(event.key)) event.preventDefault();
  }

  private press(key: string): boolean {
    const { sight } = this, { chosen } = sight;
    if (key.startsWith("Arrow")) this.choose(chosen < 0 ? sight.zoomed : this.beside(chosen, key));
    else if ((key === "Enter" || key === " ") && chosen >= 0) this.zoom(chosen);
    else if (key === "Home") { this.before = []; this.show(0); }
    else if (key === "/") this.search.focus();
    else if (key === "Backspace" || (key === "Escape" && (this.before.length || sight.zoomed))) this.goBack();
    else if (key === "Escape" && chosen >= 0) this.choose(-1);
    else if (key === "Escape") this.body.blur();
    else return false;
    return true;
  }

  private beside(node: number, key: string): number {
    const { rows, place } = this.sight.layout, depth = this.tree.depth[node], row = rows[depth];
    if (key === "ArrowUp") return Math.max(this.tree.parent[node], 0);
    if (key === "ArrowLeft") return row[Math.max(place[node] - 1, 0)];
    if (key === "ArrowRight") return row[Math.min(place[node] + 1, row.length - 1)];
    return rows[depth + 1]?.find((each) => this.tree.parent[each] === node) ?? node;
  }

  // ---- What is said ----

  private share(node: number) {
    const { total } = this.sight.layout;
    return total[node] / Math.max(total[0], 1e-9);
  }

  private sentence(node: number) {
    const { metric, layout } = this.sight;
    return `${this.tree.frameOf(node).label}, ${valueOf(metric, layout.total[node])}, ${percent(this.share(node))}`;
  }

  private say(text: string) { this.live.textContent = text; }

  private showTip(node: number, x: number, below: number, above: number) {
    if (this.tip.dataset.node !== `${node} ${this.sight.metric}`) {
      this.tip.replaceChildren(...this.described(node));
      this.tip.dataset.node = `${node} ${this.sight.metric}`;
    }
    if (!this.tip.matches(":popover-open")) this.tip.showPopover();
    const { width, height } = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 6))}px`;
    this.tip.style.top = `${below + height > innerHeight ? Math.max(4, above - height) : below}px`;
  }

  private hideTip() { if (this.tip.matches(":popover-open")) this.tip.hidePopover(); }

  private described(node: number): HTMLElement[] {
    const { tree, sight: { metric, layout, zoomed } } = this, frame = tree.frameOf(node), list = element("dl", "");
    const say = (label: string, text: string) => list.append(element("dt", "", label), element("dd", "", text));
    for (const [key, label] of tree.packed.metrics) {
      const { total } = tree.layout(key), whole = Math.max(total[0], 1e-9);
      const of = key === metric && zoomed && total[zoomed] ? `, ${percent(total[node] / total[zoomed])} of what is shown` : "";
      say(label, `${valueOf(key, total[node])}, ${percent(total[node] / whole)}${of}`);
      if (key !== metric) continue;
      list.lastElementChild?.classList.add("ksf-main");
      const phases = key === "host" ? tree.phasesOf(node) : [];
      if (phases.length > 1) say("of which", phases.map(([name, ns]) => `${name} ${duration(ns)}`).join(", "));
      if (layout.own[node] !== layout.total[node]) say("itself", valueOf(key, layout.own[node]));
      else say("", exactly(key, layout.total[node]));
    }
    const parts = [element("b", "", frame.name)];
    const kind = frame.kind === "all" ? counted(tree.size - 1, "frame") : tree.packed.kinds[frame.kind];
    parts.push(element("div", "ksf-soft", [frame.place, kind].filter(Boolean).join(" · ")));
    if (frame.code) parts.push(element("code", "", frame.code));
    return [...parts, list];
  }

  // ---- Search ----

  find(text: string) {
    const { sight } = this, { found, nodes, total } = this.tree.search(text, sight.metric);
    sight.found = text.trim() ? found : null;
    this.matches = nodes;
    this.at = -1;
    const share = percent(total / Math.max(sight.layout.total[0], 1e-9));
    this.said.textContent = !text.trim() ? "" : nodes.length ? `${share} in ${counted(nodes.length, "frame")}` : "not found";
    this.changed();
  }

  private step(by: number) {
    const { length } = this.matches;
    if (!length) return;
    this.at = (this.at + by + length + (this.at < 0 && by < 0 ? 1 : 0)) % length;
    this.choose(this.matches[this.at]);
  }
}
