// The picture of a graph: mount() draws what Python laid out, with boxes that open. Nothing is fetched or asked for.

import { Drawing, svg } from "./graph_draw.js";
import { placed } from "./graph_place.js";
import { Relations } from "./graph_relations.js";
import { Sight, followPointer } from "./graph_view.js";
import { counted } from "./text.js";

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
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/**
 * Draw a graph into an element.
 *
 * @param {HTMLElement} element - Where; what it holds already is kept.
 * @param {{payload: ArrayBuffer|DataView|Uint8Array, height?: number, theme?: "auto"|"light"|"dark"}} options - What
 *          Python packed; the most that the picture takes of the height, in CSS pixels; which theme.
 * @returns {GraphView} With `ready`, a promise that is kept after the first paint, and `destroy()`.
 */
export function mount(element, options) { return new GraphView(element, options); }

class GraphView {
  constructor(element, { payload, height, theme }) {
    this.most = height ?? HEIGHT;
    this.undo = [];
    this.times = { mounted: performance.now(), painted: null };
    this.root = make("div", `ksg ksg-${theme ?? "auto"}`, make("style", "", STYLE));
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "KernelScope graph");
    element.append(this.root);
    this.ready = this.open(payload).catch((problem) => {
      this.root.append(make("div", "ksg-problem", `The graph cannot be shown: ${problem.message}`));
      return this;
    });
  }

  async open(payload) {
    this.facts = read(await inflated(payload));
    if (this.isGone) return this;
    this.opened = new Set(this.facts.opened);
    this.boxes = this.facts.nodes.flatMap(({ canOpen }, number) => (canOpen ? [number] : []));
    this.relations = new Relations(this.facts);
    this.found = [];
    this.frame();
    this.drawing = new Drawing(this.facts, this.root);
    this.canvas.append(this.drawing.root);
    this.sight = new Sight(this.body, () => this.changed());
    this.view = this.sight;
    this.place();
    this.resize();
    this.sight.begin(this.placed.nodes.values().next().value);
    this.listen();
    this.draw();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    this.times.painted = performance.now();
    return this;
  }

  destroy() {
    this.isGone = true;
    for (const undo of this.undo.splice(0)) undo();
    if (this.request) cancelAnimationFrame(this.request);
    this.root.remove();
  }

  on(target, type, listener, options) {
    target.addEventListener(type, listener, options);
    this.undo.push(() => target.removeEventListener(type, listener, options));
  }

  // ---- The frame around the picture ----

  frame() {
    const { facts } = this;
    this.search = make("input", "ksg-search");
    this.search.type = "search";
    this.search.placeholder = "Search nodes";
    this.search.setAttribute("aria-label", "Search nodes");
    this.count = make("span", "ksg-count");
    this.all = button("ksg-all", "", "", () => this.openAll());
    const help = button("ksg-help", "?", "Keys", () => {
      this.keys.hidden = !this.keys.hidden;
      help.setAttribute("aria-expanded", String(!this.keys.hidden));
    });
    const bar = make("div", "ksg-bar-top", make("span", "ksg-title", facts.title),
      make("span", "ksg-about", facts.about));
    for (const note of facts.notes) bar.append(make("span", "ksg-chip", note));
    bar.append(this.search, this.count, make("span", "ksg-buttons", this.all,
      button("ksg-zoomin", "+", "Zoom in", () => this.sight.zoom(1.4)),
      button("ksg-zoomout", "−", "Zoom out", () => this.sight.zoom(1 / 1.4)),
      button("ksg-fit", "Fit", "Show all of it", () => this.sight.fit()), help));
    this.keys = make("div", "ksg-keys");
    for (const [key, what] of KEYS) this.keys.append(make("kbd", "", key), make("span", "", what));
    this.keys.hidden = true;
    this.canvas = svg("svg", { class: "ksg-canvas", "aria-hidden": "true" });
    this.tip = make("div", "ksg-tip");
    this.tip.hidden = true;
    this.panel = make("div", "ksg-facts");
    this.panel.hidden = true;
    this.body = make("div", "ksg-body-area", this.canvas, this.panel, this.tip);
    this.body.tabIndex = 0;
    keepShortcutsAway(this.body);
    this.body.setAttribute("role", "application");
    this.body.setAttribute("aria-roledescription", "graph");
    this.body.setAttribute("aria-label", `${facts.title}, ${facts.about}. Arrow keys choose nodes.`);
    this.live = make("div", "ksg-live");
    this.live.setAttribute("role", "status");
    this.root.append(bar, this.keys, this.body, this.legend(), this.live);
    if (!this.facts.nodes.length) this.body.append(make("div", "ksg-problem", "There is no node in it"));
    this.all.hidden = !this.boxes.length;
  }

  /** The kinds that there are, each with its sign, color and word. */
  legend() {
    const { kinds, nodes } = this.facts, numbers = new Map(), looks = new Map();
    for (const { kind } of nodes) {
      const { word } = kinds[kind];
      looks.set(word, kinds[kind]);
      numbers.set(word, (numbers.get(word) ?? 0) + 1);
    }
    return make("div", "ksg-legend", ...[...numbers].map(([word, number]) => {
      const { color, sign, plural } = looks.get(word);
      const drawn = svg("svg", { viewBox: "-3 -3 22 22", width: 16, height: 16, "aria-hidden": "true" },
        svg("rect", { x: -3, y: -3, width: 22, height: 22, rx: 5, fill: color }),
        svg("path", { d: sign, class: "ksg-sign" }));
      return make("span", "", drawn, counted(number, word, plural));
    }));
  }

  listen() {
    const sized = new ResizeObserver(() => this.resize() && this.changed());
    sized.observe(this.body);
    this.undo.push(() => sized.disconnect());
    followPointer(this.body, this.sight, (...all) => this.on(...all), {
      clicked: (target) => this.clicked(target),
      doubled: (target) => this.toggle(numberOf(target)),
      hovered: (target, x, y) => this.hover(numberOf(target), x, y),
    });
    this.on(this.body, "keydown", (event) => this.key(event));
    this.on(this.search, "input", () => this.find(this.search.value));
    this.on(this.search, "keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key !== "Escape") return;
      this.search.value = "";
      this.find("");
      this.body.focus({ preventScroll: true });
    });
  }

  // ---- Drawing ----

  place() {
    this.placed = placed(this.facts, this.opened);
    this.sight.size = { width: Math.max(this.placed.width, 1), height: Math.max(this.placed.height, 1) };
    this.drawing.show(this.placed);
    const isAll = this.boxes.every((number) => this.opened.has(number));
    this.all.textContent = isAll ? "Close all" : "Open all";
    this.all.title = isAll ? "Close all boxes" : "Open all boxes";
    this.mark();
  }

  /** Take the size from the page; whether it is new. */
  resize() {
    const high = `${Sight.heightOf(this.sight.size, this.body.clientWidth || 600, this.most)}px`;
    const isNew = this.wide !== this.body.clientWidth;
    this.wide = this.body.clientWidth;
    // It grows with what opens, and does not shrink under the reader's hand.
    if (isNew || parseInt(high, 10) > (parseInt(this.body.style.height, 10) || 0)) this.body.style.height = high;
    return isNew;
  }

  changed() { this.request ??= requestAnimationFrame(() => this.draw()); }

  draw() {
    if (this.request) cancelAnimationFrame(this.request);
    this.request = null;
    if (this.isGone) return;
    this.drawing.root.setAttribute("transform", this.sight.transform);
    this.drawing.see(...this.sight.part);
    this.canvas.classList.toggle("ksg-far", this.sight.farness > 0);
    this.canvas.classList.toggle("ksg-farthest", this.sight.farness > 1);
  }

  // ---- Boxes ----

  toggle(number) {
    if (number === null || !this.facts.nodes[number]?.canOpen) return;
    this.setOpen(number, new Set(this.opened.has(number) ? [...this.opened].filter((each) => each !== number)
      : [...this.opened, number]));
    this.say(`${this.facts.nodes[number].title} ${this.opened.has(number) ? "opened" : "closed"}`);
  }

  openAll() {
    const isAll = this.boxes.every((number) => this.opened.has(number));
    this.setOpen(this.chosen ?? null, new Set(isAll ? [] : this.boxes));
  }

  /** Open these boxes and no others; what is chosen, or was clicked at, stays where it is on the screen. */
  setOpen(anchor, opened) {
    const before = this.placed.nodes.get(anchor);
    this.opened = opened;
    if (this.chosen !== undefined) this.chosen = this.shownOf(this.chosen);
    this.place();
    const after = this.placed.nodes.get(anchor);
    if (before && after) {
      this.sight.pan((before.x + before.width / 2 - after.x - after.width / 2) * this.sight.scale,
        (before.y - after.y) * this.sight.scale);
    }
    this.resize();
    this.changed();
  }

  /** The node itself, or the outermost closed box around it. */
  shownOf(number) {
    return this.relations.around(number).filter((each) => !this.opened.has(each)).at(-1) ?? number;
  }

  // ---- Choosing ----

  clicked(target) {
    const toggled = target.closest?.("[data-toggle]");
    if (toggled) this.toggle(Number(toggled.dataset.toggle));
    else this.choose(numberOf(target));
  }

  choose(number, isShown = false) {
    this.chosen = number ?? undefined;
    if (isShown && number !== null) this.sight.reveal(this.placed.nodes.get(number));
    this.mark();
    this.hover(null);
    if (number !== null) this.say(this.sentence(number));
  }

  /** Show what is chosen and found, what is before and after it, and its facts. */
  mark() {
    const { chosen } = this, isChosen = chosen !== undefined, found = new Set(this.found);
    const { before, after } = isChosen ? this.relations.of(chosen) : { before: new Set(), after: new Set() };
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

  details(number, before, after) {
    const node = this.facts.nodes[number];
    const close = button("ksg-close", "×", "Choose nothing", () => this.choose(null));
    const list = make("dl", "");
    for (const [label, text] of [...node.facts, ["order", `${counted(before, "node")} before it, ${after} after it`]]) {
      list.append(make("dt", "", label), make("dd", "", text));
    }
    const parts = [make("b", "", node.title), close, list];
    if (node.canOpen) {
      const isOpen = this.opened.has(number);
      parts.push(button("ksg-open", isOpen ? "Close the box" : "Open the box", "", () => this.toggle(number)));
    } else if (node.isBox) parts.push(make("div", "ksg-soft", "Too much is in it to be drawn here."));
    return parts;
  }

  hover(number, x, y) {
    this.tip.hidden = number === null || number === this.chosen;
    if (this.tip.hidden) return;
    if (this.hovered !== number) {
      const { title, facts } = this.facts.nodes[number], list = make("dl", "");
      for (const [label, text] of facts) list.append(make("dt", "", label), make("dd", "", text));
      this.tip.replaceChildren(make("b", "", title), list);
      this.hovered = number;
    }
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.sight.width - wide - 6))}px`;
    this.tip.style.top = `${Math.max(4, y + 16 + high > this.sight.height ? y - high - 10 : y + 16)}px`;
  }

  sentence(number) {
    const { title, line, time } = this.facts.nodes[number], { before, after } = this.relations;
    const beside = `${counted((before.get(number) ?? []).length, "edge")} in, ${(after.get(number) ?? []).length} out`;
    return [line || title, time, beside].filter(Boolean).join(", ");
  }

  say(text) { this.live.textContent = text; }

  // ---- Search and keys ----

  find(text) {
    const wanted = text.trim().toLowerCase();
    this.found = !wanted ? [] : this.facts.nodes.flatMap(({ key, isDrawn }, number) => (
      isDrawn && key.includes(wanted) ? [number] : []));
    this.at = -1;
    this.count.textContent = wanted ? counted(this.found.length, "node") : "";
    this.mark();
  }

  step(by) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length + (this.at < 0 && by < 0 ? 1 : 0)) % this.found.length;
    const number = this.found[this.at], closed = this.relations.around(number).filter((each) => !this.opened.has(each));
    if (closed.length) this.setOpen(null, new Set([...this.opened, ...closed]));
    this.count.textContent = `${this.at + 1} of ${this.found.length}`;
    this.choose(number, true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.body) return;
    const arrow = ARROWS[event.key];
    // A letter that means nothing here would mean something to the notebook: it deletes, pastes and merges cells.
    if (event.key !== "Tab") event.stopPropagation();
    if (arrow && event.shiftKey) this.sight.pan(arrow[0] * -60, arrow[1] * -60);
    else if (arrow) this.walk(arrow);
    else if (!this.press(event.key)) return;
    event.preventDefault();
  }

  walk(arrow) {
    const { placed: { nodes }, chosen, relations } = this;
    const next = chosen === undefined ? nodes.keys().next().value : relations.beside(chosen, arrow, nodes);
    if (next !== null && next !== undefined) this.choose(next, true);
  }

  press(key) {
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

/** What Python packed: columns of nodes as objects. */
function read(text) {
  const facts = JSON.parse(text), drawn = new Set(facts.levels.flatMap(({ spots }) => spots.map(([number]) => number)));
  const insides = new Set(facts.levels.filter(({ spots }) => spots.length).map(({ place }) => place[0]));
  const widths = new Map(facts.levels.flatMap(({ spots, width }) => spots.map(([number]) => [number, width])));
  facts.nodes = facts.nodes.map(([kind, around, isBox, title, detail, time, share, line, more], number) => ({
    kind, around, isBox, title, detail, time, share, line, facts: more, width: widths.get(number),
    isDrawn: drawn.has(number), canOpen: insides.has(number),
    key: [kind, title, ...more.map((pair) => pair[1])].join("\n").toLowerCase(),
  }));
  for (const level of facts.levels) {
    level.lines = level.lines.map(([first, then, out, into, lane, isBackward, bends]) => (
      { first, then, out, into, lane, isBackward, bends }));
  }
  return facts;
}

async function inflated(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).text();
}

function numberOf(target) {
  const found = target?.closest?.("[data-node]");
  return found ? Number(found.dataset.node) : null;
}

function button(name, label, title, action) {
  const made = make("button", `ksg-button ${name}`, label);
  made.type = "button";
  if (title) made.title = title;
  made.addEventListener("click", action);
  return made;
}

function make(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (["button", "input"].includes(tag)) keepShortcutsAway(made);
  made.append(...children);
  return made;
}

/** JupyterLab's and Notebook's own shortcuts come before any listener, and this is how they are told to stay away. */
function keepShortcutsAway(element) { element.setAttribute("data-lm-suppress-shortcuts", "true"); }
