// The axis of time: real time but for long stretches between cells in which nothing happened, which are drawn short.

import type { Model } from "./model";
import type { TableName } from "./wire";

/** What lasts less than this share of all that is not idle is drawn as long as it is, */
const LEAST = 0.04;
/** and what is folded away takes this share of it, all of it together at most the second one. */
const SHOWN = 0.014, MOST_SHOWN = 0.15;
/** Tables whose events go on through idle time, or only frame what happens. */
const FRAMES: readonly TableName[] = ["cells", "ranges", "samples"];

/** A stretch of idle time: from one real time to another, and where the axis has it; `isOpen` as long as it was. */
export interface Break {
  from: number;
  to: number;
  at: number;
  shown: number;
  isOpen: boolean;
}

/** Places on the axis, and the real times that they stand for, both in nanoseconds since the start. */
export class Axis {
  /** Those that are drawn short. */
  readonly breaks: Break[] = [];
  /** All long stretches of idle time. */
  readonly idle: Break[] = [];
  private readonly starts: number[] = [];
  private readonly places: number[] = [];

  constructor(idle: [from: number, to: number][], short: number, open: ReadonlySet<number>) {
    let gone = 0;
    for (const [from, to] of idle) {
      const isOpen = open.has(from), shown = isOpen ? to - from : short;
      const each = { from, to, at: from - gone, shown, isOpen };
      this.idle.push(each);
      if (isOpen) continue;
      this.breaks.push(each);
      this.starts.push(from);
      this.places.push(from - gone);
      gone += to - from - shown;
    }
  }

  place(time: number): number {
    const last = this.breaks[above(this.starts, time) - 1];
    if (!last) return time;
    const into = time - last.from, lasting = last.to - last.from;
    return last.at + (into < lasting ? (into / lasting) * last.shown : last.shown + into - lasting);
  }

  real(place: number): number {
    const last = this.breaks[above(this.places, place) - 1];
    if (!last) return place;
    const into = place - last.at;
    return last.from + (into < last.shown ? (into / last.shown) * (last.to - last.from)
      : last.to - last.from + into - last.shown);
  }

  /** The break at a place; undefined where there is none. */
  breakAt(place: number): Break | undefined {
    const last = this.breaks[above(this.places, place) - 1];
    return last && place < last.at + last.shown ? last : undefined;
  }
}

/** The axis of a recording, in which long idle time between cells is short, but for what the reader has unfolded. */
export function axisOf(model: Model, unfolded: ReadonlySet<number>): Axis {
  const idle = idleBetweenCells(model), total = idle.reduce((sum, [from, to]) => sum + to - from, 0);
  const busy = model.header.span_ns - total;
  const long = idle.filter(([from, to]) => to - from > LEAST * busy);
  const share = Math.min(SHOWN, MOST_SHOWN / Math.max(1, long.length));
  return new Axis(long, share * busy, unfolded);
}

function idleBetweenCells(model: Model): [number, number][] {
  const cells = model.table("cells"), start = cells.col("start"), lasting = cells.col("dur");
  const spans = Array.from(start, (from, row): [number, number] => [from, from + Math.max(0, lasting[row])])
    .sort((a, b) => a[0] - b[0]);
  const gaps: [number, number][] = [];
  let reach = spans.length ? spans[0][1] : 0;
  for (const [from, to] of spans) {
    if (from > reach) gaps.push([reach, from]);
    reach = Math.max(reach, to);
  }
  return gaps.length ? clear(model, gaps) : gaps;
}

/** The parts of gaps in which no event was under way: at most one of each, from the last event's end on. */
function clear(model: Model, gaps: [number, number][]): [number, number][] {
  const idle = gaps.map(([from, to]): [number, number] => [from, to]), ends = gaps.map(([, to]) => to);
  for (const [name, table] of Object.entries(model.tables) as [TableName, Model["tables"][TableName]][]) {
    if (FRAMES.includes(name) || !table.rows) continue;
    const start = table.col("start"), lasting = table.col("dur");
    for (let row = 0; row < start.length; row++) {
      const from = start[row], to = from + Math.max(0, lasting[row]);
      for (let at = above(ends, from); at < idle.length && idle[at][0] < to; at++) {
        if (idle[at][1] > from) idle[at][0] = Math.min(Math.max(idle[at][0], to), idle[at][1]);
      }
    }
  }
  return idle.filter(([from, to]) => to > from);
}

/** The first index whose value is above `bound`, in ascending values. */
export function above(values: ArrayLike<number>, bound: number, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > bound) high = middle; else low = middle + 1;
  }
  return low;
}
