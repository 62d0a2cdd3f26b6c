// The nodes of a flame graph, and where each metric places them.

import { count, counted, duration } from "../shared/text";
import type { Packed } from "./wire";

export interface Frame {
  name: string;
  place: string;
  kind: string;
  code: string;
  label: string;
  /** What a search looks at. */
  key: string;
}

/** Where nodes are by one metric: of a caller's the heaviest is leftmost. */
export interface Layout {
  total: Float64Array;
  own: Float64Array;
  /** How much of the whole is left of each. */
  left: Float64Array;
  /** The nodes of each row that weigh anything, from left to right. */
  rows: Int32Array[];
  /** Each node's place in its row. */
  place: Int32Array;
}

export class Tree {
  readonly size: number;
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  readonly frames: Frame[];
  private readonly layouts = new Map<string, Layout>();
  /** Children of each node: from `first[node]` to `first[node + 1]` in `below`. */
  private readonly first: Int32Array;
  private readonly below: Int32Array;

  constructor(readonly packed: Packed) {
    const { up, frames } = packed;
    this.size = up.length + 1;
    this.parent = new Int32Array(this.size).fill(-1);
    this.depth = new Int32Array(this.size);
    this.first = new Int32Array(this.size + 1);
    this.below = new Int32Array(this.size);
    for (let node = 1; node < this.size; node += 1) {
      const parent = node - up[node - 1];
      this.parent[node] = parent;
      this.depth[node] = this.depth[parent] + 1;
      this.first[parent + 1] += 1;
    }
    for (let node = 0; node < this.size; node += 1) this.first[node + 1] += this.first[node];
    const next = this.first.slice();
    for (let node = 1; node < this.size; node += 1) this.below[next[this.parent[node]]++] = node;
    this.frames = frames.map(([name, place, kind, code]) => ({ name, place, kind, code,
      label: place.startsWith(`${name}:`) ? place : `${name} ${place}`.trimEnd(),
      key: `${name} ${place} ${code}`.toLowerCase() }));
  }

  frameOf(node: number): Frame { return this.frames[this.packed.frame[node]]; }

  layout(metric: string): Layout {
    let found = this.layouts.get(metric);
    if (!found) this.layouts.set(metric, found = this.placed(Float64Array.from(this.packed.own[metric])));
    return found;
  }

  private placed(own: Float64Array): Layout {
    const total = this.summed(own), left = new Float64Array(this.size), place = new Int32Array(this.size).fill(-1);
    const rows: Int32Array[] = [];
    place[0] = 0;
    for (let row = Int32Array.of(0); row.length; row = this.under(row, total, left, place)) rows.push(row);
    return { total, own, left, rows, place };
  }

  /** The row below a row. */
  private under(row: Int32Array, total: Float64Array, left: Float64Array, place: Int32Array) {
    const found: number[] = [];
    for (const node of row) {
      let at = left[node];
      const inside = this.below.subarray(this.first[node], this.first[node + 1]).filter((each) => total[each] > 0);
      for (const each of inside.sort((one, other) => total[other] - total[one] || one - other)) {
        left[each] = at;
        at += total[each];
        place[each] = found.push(each) - 1;
      }
    }
    return Int32Array.from(found);
  }

  private summed(own: Float64Array) {
    const total = own.slice();
    for (let node = this.size - 1; node > 0; node -= 1) total[this.parent[node]] += total[node];
    return total;
  }

  /** The node and those that called it, the whole first. */
  pathTo(node: number): number[] {
    const found: number[] = [];
    for (let at = node; at >= 0; at = this.parent[at]) found.push(at);
    return found.reverse();
  }

  /** Host time of a node and those below it, by phase. */
  phasesOf(node: number): [phase: string, ns: number][] {
    const isIn = new Uint8Array(this.size);
    isIn[node] = 1;
    const found = Object.entries(this.packed.phases).map(([name]): [string, number] => [name, 0]);
    for (let at = node; at < this.size; at += 1) {
      if (at > node && !isIn[this.parent[at]]) continue;
      isIn[at] = 1;
      for (const each of found) each[1] += this.packed.phases[each[0]][at];
    }
    return found.filter(([, ns]) => ns > 0);
  }

  /** Which nodes a text is found in, and how much they weigh together with all below them. */
  search(text: string, metric: string): { found: Uint8Array; nodes: number[]; total: number } {
    const { total } = this.layout(metric), wanted = text.trim().toLowerCase();
    const isFound = this.frames.map(({ key, kind }) => wanted !== "" && kind !== "all" && key.includes(wanted));
    const found = new Uint8Array(this.size), isWithin = new Uint8Array(this.size), nodes: number[] = [];
    let sum = 0;
    for (let node = 1; node < this.size; node += 1) {
      const within = isWithin[this.parent[node]];
      isWithin[node] = within;
      if (!isFound[this.packed.frame[node]] || !total[node]) continue;
      found[node] = isWithin[node] = 1;
      nodes.push(node);
      if (!within) sum += total[node];
    }
    return { found, nodes, total: sum };
  }
}

/** A value of a metric with its unit. */
export function valueOf(metric: string, value: number) {
  return metric === "launches" ? counted(value, "launch", "launches") : duration(value);
}

/** A value in full. */
export function exactly(metric: string, value: number) {
  return metric === "launches" ? counted(value, "launch", "launches") : `${count(value)} ns`;
}
