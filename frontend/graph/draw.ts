// Draws what was placed as SVG, as kernelscope/views/graph/svg.py does: boxes, then lines, then nodes.

import { contextOf } from "../shared/dom";
import type { DrawnLine, Frame, Placed } from "./place";
import type { Graph, Line } from "./wire";

// The name of SVG's namespace: nothing is fetched from there.
const SVG = ["http", "//www.w3.org/2000/svg"].join(":");

export function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name, attributes: Record<string, string | number> = {}, ...children: (Node | string)[]
): SVGElementTagNameMap[Name] {
  const made = document.createElementNS(SVG, name) as SVGElementTagNameMap[Name];
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** The picture inside an `<svg>`: a node is made when it comes near what is seen, once, and moved after that. */
export class Drawing {
  readonly root: SVGGElement;
  private readonly measuring = contextOf(document.createElement("canvas"));
  private family?: string;
  private classesOf: (number: number) => (string | false)[] = () => [];
  private placed!: Placed;
  /** Elements by node: of closed nodes, made once, and of open boxes; and which closed ones are in the page. */
  private readonly made = new Map<number, SVGGElement>();
  private boxed = new Map<number, SVGGElement>();
  private closed: [number: number, frame: Frame][] = [];
  private seen = new Set<number>();
  private readonly boxes = svg("g");
  private readonly lines = svg("path", { class: "ksg-lines" });
  private readonly backward = svg("path", { class: "ksg-lines ksg-backward" });
  private readonly heads = svg("path", { class: "ksg-heads" });
  private readonly near = svg("path", { class: "ksg-lines ksg-nearlines" });
  private readonly nearHeads = svg("path", { class: "ksg-heads ksg-nearheads" });
  private readonly nodes = svg("g");

  /** Draw a graph in the font of an element. */
  constructor(private readonly facts: Graph, private readonly element: Element) {
    this.root = svg("g", {}, this.boxes, this.lines, this.backward, this.heads, this.near, this.nearHeads, this.nodes);
  }

  /** Show what was placed; frames of bodies say which boxes are open. */
  show(placed: Placed) {
    this.placed = placed;
    const opened = new Set([...placed.bodies.values()].map(({ number }) => number));
    const boxes: SVGGElement[] = [];
    this.boxed = new Map();
    this.closed = [];
    for (const [number, frame] of placed.nodes) {
      if (!opened.has(number)) {
        this.closed.push([number, frame]);
        continue;
      }
      boxes.push(this.box(number, frame));
      for (const [key, body] of placed.bodies) if (body.number === number) boxes.push(this.body(key, body));
    }
    this.boxes.replaceChildren(...boxes);
    this.nodes.replaceChildren();
    this.seen = new Set();
    this.lines.setAttribute("d", placed.lines.filter((line) => !line.isBackward).map((line) => line.path).join(""));
    this.backward.setAttribute("d", placed.lines.filter((line) => line.isBackward).map((line) => line.path).join(""));
    this.heads.setAttribute("d", placed.lines.map((line) => head(line, placed.nodes)).join(""));
  }

  /** Have the nodes in this part of the picture in the page, and no others. */
  see(left: number, top: number, right: number, bottom: number) {
    const seen = new Set<number>(), added: SVGGElement[] = [];
    for (const [number, { x, y, width, height }] of this.closed) {
      if (x > right || y > bottom || x + width < left || y + height < top) continue;
      seen.add(number);
      if (this.seen.has(number)) continue;
      const made = this.node(number);
      made.setAttribute("transform", `translate(${r(x)} ${r(y)})`);
      added.push(made);
    }
    for (const number of this.seen) if (!seen.has(number)) this.made.get(number)?.remove();
    this.nodes.append(...added);
    this.seen = seen;
  }

  /** Give each node's element the classes that a function says. */
  mark(classesOf: (number: number) => (string | false)[]) {
    this.classesOf = classesOf;
    for (const held of [this.boxed, this.made]) for (const [number, made] of held) this.dress(number, made);
  }

  private dress(number: number, made: Element) {
    const wanted = this.classesOf(number);
    for (const name of ["ksg-chosen", "ksg-near", "ksg-found"]) made.classList.toggle(name, wanted.includes(name));
  }

  /** Draw these lines in front of the others. */
  stress(lines: DrawnLine[]) {
    this.near.setAttribute("d", lines.map((line) => line.path).join(""));
    this.nearHeads.setAttribute("d", lines.map((line) => head(line, this.placed.nodes)).join(""));
  }

  private node(number: number): SVGGElement {
    const held = this.made.get(number);
    if (held) return held;
    const { style } = this.facts, node = this.facts.nodes[number], kind = this.facts.kinds[node.kind];
    const { width = 0 } = node, { height } = this.facts.lengths, right = width - 13;
    const made = svg("g", { class: "ksg-node", "data-node": number, fill: "#fff" },
      svg("path", { d: this.facts.outlines[`${node.kind}/${width}`], fill: kind.color, class: "ksg-ground" }),
      svg("path", { d: kind.sign, class: "ksg-sign", transform: `translate(${style.sign_x} ${style.sign_y})` }),
      svg("text", { x: style.text_x, y: node.detail || node.time ? style.name_y : style.lone_y, class: "ksg-name" },
        node.title));
    if (node.detail) {
      const room = right - 5 - style.text_x - this.wide(node.time, style.detail_size);
      made.append(svg("text", { x: style.text_x, y: style.detail_y, class: "ksg-small" },
        this.fitted(node.detail, room, style.detail_size)));
    }
    if (node.time) made.append(svg("text", { x: right, y: style.detail_y, class: "ksg-small ksg-time" }, node.time));
    if (node.isBox) made.append(svg("path", { d: `M${width - 19} 10.5l5 4.5-5 4.5z`, class: "ksg-arrow" }),
      svg("rect", { x: width - 28, y: 2, width: 24, height: 26, class: "ksg-toggle", "data-toggle": number }));
    if (node.share !== null) {
      const whole = right - style.text_x, y = height - 7;
      const part = r(Math.max(whole * Math.min(node.share, 1), 1));
      made.append(svg("path", { d: `M${style.text_x} ${y}h${whole}`, class: "ksg-bar ksg-track" }),
        svg("path", { d: `M${style.text_x} ${y}h${part}`, class: "ksg-bar" }));
    }
    this.made.set(number, made);
    this.dress(number, made);
    return made;
  }

  private box(number: number, { x, y, width, height }: Frame) {
    const { style, lengths } = this.facts, node = this.facts.nodes[number], kind = this.facts.kinds[node.kind];
    const room = width - style.text_x - 40 - this.wide(node.time, style.size);
    const made = svg("g", { class: "ksg-box", "data-node": number, transform: `translate(${r(x)} ${r(y)})` },
      svg("rect", { width: r(width), height: r(height), rx: 10, fill: kind.color, stroke: kind.color,
        class: "ksg-frame" }),
      svg("path", { fill: kind.color, "data-toggle": number, class: "ksg-bartop",
        d: `M0 10Q0 0 10 0H${r(width - 10)}Q${r(width)} 0 ${r(width)} 10V${lengths.head - 8}H0z` }),
      svg("path", { d: kind.sign, class: "ksg-sign", transform: "translate(11 5)" }),
      svg("text", { x: style.text_x, y: 17.5, class: "ksg-boxname" }, this.fitted(node.line, room, style.size, "600")),
      svg("text", { x: r(width - 28), y: 17.5, class: "ksg-boxtime" }, node.time),
      svg("path", { d: `M${r(width - 21)} 10.5h9l-4.5 5z`, class: "ksg-arrow", fill: "#fff" }));
    this.boxed.set(number, made);
    this.dress(number, made);
    return made;
  }

  /** How wide a text of such a size is in the page's font. */
  private wide(text: string, size: number, weight = "400") {
    this.family ??= getComputedStyle(this.element).fontFamily;
    // Canvases round the advances of small letters; pictures do not.
    this.measuring.font = `${weight} ${10 * size}px ${this.family}`;
    return this.measuring.measureText(text).width / 10;
  }

  /** As much of a text as fits into so many pixels. */
  private fitted(text: string, room: number, size: number, weight?: string) {
    if (this.wide(text, size, weight) <= room) return text;
    let [least, most] = [0, text.length - 1];
    while (least < most) {
      const middle = Math.ceil((least + most) / 2);
      if (this.wide(`${text.slice(0, middle)}…`, size, weight) <= room) least = middle;
      else most = middle - 1;
    }
    return least > 0 ? `${text.slice(0, least)}…` : "";
  }

  private body(key: string, { x, y, width, height }: Frame) {
    const name = this.facts.levels.find((level) => `${level.place[0]}/${level.place[1]}` === key)?.name;
    const made = svg("g", {}, svg("rect", { x: r(x), y: r(y), width: r(width), height: r(height), rx: 7,
      class: "ksg-body" }));
    if (name) made.append(svg("text", { x: r(x + 9), y: r(y + 14), class: "ksg-bodyname" }, name));
    return made;
  }
}

/** The head of a line, at the node that waits. */
function head(line: Line, nodes: Map<number, Frame>): string {
  const to = nodes.get(line.then);
  if (!to) return "";
  const middle = to.x + to.width / 2;
  return line.isBackward ? `M${r(middle + line.out)} ${r(to.y + to.height)}l-4 7h8z`
    : `M${r(middle + line.into)} ${r(to.y)}l-4 -7h8z`;
}

function r(value: number) { return Math.round(value * 10) / 10; }
