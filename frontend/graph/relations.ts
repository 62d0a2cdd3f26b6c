// What comes before and after a node, and what lies beside it: for highlighting and for the arrow keys.

import type { Frame } from "./place";
import type { Graph, GraphNode } from "./wire";

/** Edges of a graph by node; boxes count as what is in them. */
export class Relations {
  /** Direct edges by node, both ways. */
  readonly before = new Map<number, number[]>();
  readonly after = new Map<number, number[]>();
  private readonly inside = new Map<number, number[]>();
  private readonly nodes: GraphNode[];

  constructor({ levels, nodes }: Graph) {
    this.nodes = nodes;
    for (const { lines } of levels) {
      for (const { first, then } of lines) {
        push(this.after, first, then);
        push(this.before, then, first);
      }
    }
    nodes.forEach(({ around }, number) => { if (around >= 0) push(this.inside, around, number); });
  }

  /** The boxes around a node, from the inside out. */
  around(number: number): number[] {
    const found: number[] = [];
    for (let at = this.nodes[number].around; at >= 0; at = this.nodes[at].around) found.push(at);
    return found;
  }

  /** All nodes that must have run before it, and all that wait for it, directly or not. */
  of(number: number): { before: Set<number>; after: Set<number> } {
    const before = new Set<number>(), after = new Set<number>();
    for (const each of [number, ...this.around(number)]) {
      reach(each, this.before, before);
      reach(each, this.after, after);
    }
    for (const found of [before, after]) for (const each of [...found]) reach(each, this.inside, found);
    return { before, after };
  }

  /** The nearest shown node in a direction, such as [0, 1] for down; what an edge leads to comes before the others. */
  beside(number: number, [dx, dy]: readonly [number, number], frames: Map<number, Frame>): number | null {
    const own = frames.get(number);
    if (!own) return null;
    const here = middle(own), edges = dy > 0 ? this.after : this.before;
    const linked = dy ? (edges.get(number) ?? []).filter((each) => frames.has(each)) : [];
    let best: number | null = null, least = Infinity;
    for (const each of linked.length ? linked : frames.keys()) {
      const frame = frames.get(each);
      if (each === number || !frame) continue;
      const there = middle(frame), along = (there.x - here.x) * dx + (there.y - here.y) * dy;
      const across = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
      if (!linked.length && along <= 1) continue;
      const cost = Math.abs(along) + across * (linked.length ? 1 : 3);
      if (cost < least) [best, least] = [each, cost];
    }
    return best;
  }
}

function reach(from: number, edges: Map<number, number[]>, found: Set<number>) {
  const waiting = [from];
  while (waiting.length) {
    for (const next of edges.get(waiting.pop() ?? -1) ?? []) {
      if (found.has(next) || next === from) continue;
      found.add(next);
      waiting.push(next);
    }
  }
}

function push(map: Map<number, number[]>, key: number, value: number) {
  const held = map.get(key);
  if (held) held.push(value);
  else map.set(key, [value]);
}

function middle({ x, y, width, height }: Frame) { return { x: x + width / 2, y: y + Math.min(height, 48) / 2 }; }
