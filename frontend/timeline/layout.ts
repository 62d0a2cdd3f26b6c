// Where lanes and tracks are, from the top down, in CSS pixels.

import { type GroupSpec, groupsOf } from "./groups";
import type { Model } from "./model";
import type { Track } from "./tracks";
import type { LaneSpec, TableName } from "./wire";

const HEIGHTS: Record<TableName, number> = {
  cells: 18, ranges: 17, launches: 26, compiles: 16, passes: 13, events: 16, builds: 16, calls: 13, graphs: 17, gpu: 22,
  collections: 16, samples: 26,
};
const MARKS = 12, NESTED = 20, GAP = 2, PADDING = 5, LEAST = 36, FOLDED = 20, HEADER = 26;

/** A track's row: where it is, from the top of all lanes. */
export interface Row {
  lane: Lane;
  track: Track;
  y: number;
  height: number;
  isThin?: boolean;
}

export interface Lane {
  spec: LaneSpec;
  /** What the reader's choice is kept under. */
  key: string;
  /** How many lanes are above it. */
  index: number;
  tracks: Track[];
  /** The groups that it is in, the innermost first; and of a group's header the processes that it shows. */
  around: Lane[];
  processes: number[];
  beginsFolded: boolean;
  isFolded: boolean;
  /** Pinned lanes are above the others; those that fit stay in view, and are stuck. */
  isPinned: boolean;
  isStuck: boolean;
  rows: Row[];
  y: number;
  height: number;
}

/** The lanes that are folded, and those that are pinned, in order: by their keys. */
export interface Kept {
  folded: string[];
  pinned: string[];
}

export class Layout {
  /** Those that are seen, from the top down: a folded group shows its header alone. */
  lanes: Lane[];
  height = 0;
  /** How much of the top stays in view while the rest scrolls. */
  stuck = 0;
  private room = 0;
  private readonly original: readonly Lane[];

  constructor(model: Model, tracks: Map<number, Track>, readonly kept: Kept) {
    const seen = new Map<string, number>(), groups = groupsOf(model.header);
    const lanesOf = (process?: number, around: Lane[] = []) => model.lanes.filter((spec) => spec.process === process)
      .map((spec) => laneOf(spec, seen, around, spec.tracks.flatMap((each) => tracks.get(each.track) ?? [])));
    let machine: Lane[] = [];
    this.lanes = groups.length ? groups.flatMap((group) => {
      const header = headerOf(group, seen, group.kind === "machine" ? [] : machine);
      if (group.kind === "machine") { machine = [header]; return machine; }
      return [header, ...lanesOf(group.processes[0], [header, ...machine])];
    }) : lanesOf();
    this.original = [...this.lanes];
    this.place();
  }

  private place() {
    const { kept, original } = this, order = new Map(kept.pinned.map((key, at) => [key, at]));
    for (const lane of original) {
      lane.isFolded = kept.folded.includes(lane.key) !== lane.beginsFolded;
      lane.isPinned = order.has(lane.key);
    }
    const rank = (lane: Lane) => order.get(lane.key) ?? order.size;
    this.lanes = original.filter((lane) => lane.isPinned || !lane.around.some((group) => group.isFolded))
      .sort((a, b) => rank(a) - rank(b));
    let y = 0;
    this.lanes.forEach((lane, index) => {
      lane.index = index;
      lane.y = y;
      lane.rows = lane.processes.length ? [] : lane.isFolded ? folded(lane, y) : open(lane, y);
      const last = lane.rows[lane.rows.length - 1];
      lane.height = !last ? HEADER : lane.isFolded ? FOLDED : Math.max(LEAST, last.y + last.height - y + PADDING);
      y += lane.height;
    });
    this.height = y;
    this.stick(this.room);
  }

  /** Let as many pinned lanes stay in view as leave some of a height to the others. */
  stick(room: number) {
    this.room = room;
    this.stuck = 0;
    for (const lane of this.lanes) {
      const until = lane.y + lane.height;
      lane.isStuck = lane.isPinned && this.stuck === lane.y && until <= room - LEAST;
      if (lane.isStuck) this.stuck = until;
    }
  }

  fold(lane: Lane, isFolded: boolean = !lane.isFolded) {
    this.kept.folded = chosen(this.kept.folded, lane.key, isFolded !== lane.beginsFolded);
    this.place();
  }

  pin(lane: Lane, isPinned: boolean = !lane.isPinned) {
    this.kept.pinned = chosen(this.kept.pinned, lane.key, isPinned);
    this.place();
  }

  /** How far a lane is above its place when the others are scrolled by `scroll`. */
  shift(lane: Lane, scroll: number): number { return lane.isStuck ? 0 : scroll; }

  /** The groups that must be unfolded for a track to have a row. */
  foldedAround(track: Track): Lane[] {
    return this.original.find((lane) => lane.tracks.includes(track))?.around.filter((group) => group.isFolded) ?? [];
  }

  /** The lane at a height of what is seen. */
  laneAt(y: number, scroll: number): Lane | undefined {
    const at = y < this.stuck ? y : y + scroll;
    return this.lanes.find((each) => at >= each.y && at < each.y + each.height);
  }

  /** The row at a height of what is seen. */
  rowAt(y: number, scroll: number): Row | null {
    const at = y < this.stuck ? y : y + scroll, lane = this.laneAt(y, scroll);
    return lane?.rows.find((row) => at >= row.y - 1 && at < row.y + row.height + 1) ?? null;
  }

  /** Where the row of a track is; null where its lane has none. */
  rowOf(track: Track): Row | null {
    for (const lane of this.lanes) for (const row of lane.rows) if (row.track === track) return row;
    return null;
  }
}

function laneOf(spec: LaneSpec, seen: Map<string, number>, around: Lane[], tracks: Track[]): Lane {
  return { spec, index: 0, key: keyOf(spec, seen, around), tracks, around, processes: [], beginsFolded: false,
    isFolded: false, isPinned: false, isStuck: false, rows: [], y: 0, height: 0 };
}

function headerOf({ kind, label, note, processes, beginsFolded }: GroupSpec, seen: Map<string, number>, around: Lane[]) {
  const made = laneOf({ group: kind, label, note, tracks: [] }, seen, around, []);
  // What is kept says that a group was folded, or that one that begins folded was opened.
  return Object.assign(made, { processes, beginsFolded, key: beginsFolded ? `open/${made.key}` : made.key });
}

/** What tells a lane from the others, of which some are `seen`, and is the same in another recording. */
function keyOf({ group, label, note }: LaneSpec, seen: Map<string, number>, around: Lane[]): string {
  const outside = around.map((each) => each.spec.label).reverse();
  const name = [...outside, group, label, ...(["gpu", "nvtx", "garbage"].includes(group) ? [note] : [])].join("/");
  const before = seen.get(name) ?? 0;
  seen.set(name, before + 1);
  return before ? `${name}/${before}` : name;
}

function chosen(keys: string[], key: string, isIn: boolean): string[] {
  return [...keys.filter((each) => each !== key), ...(isIn ? [key] : [])];
}

function rowHeight({ spec: { table, kind, depth } }: Track): number {
  return kind === "marks" ? MARKS : table === "launches" && depth ? NESTED : HEIGHTS[table];
}

function open(lane: Lane, top: number): Row[] {
  // The one row of a lane is in the middle of the room that its label takes.
  const isAlone = lane.tracks.length === 1, spare = isAlone ? (LEAST - rowHeight(lane.tracks[0])) / 2 : 0;
  let y = top + Math.max(PADDING, spare);
  return lane.tracks.map((track) => {
    const height = rowHeight(track);
    const row = { lane, track, y, height };
    y += height + GAP;
    return row;
  });
}

/** A folded lane shows all of its tracks, thin. */
function folded(lane: Lane, top: number): Row[] {
  const height = Math.max(1.5, (FOLDED - 6) / lane.tracks.length);
  const step = (FOLDED - 6) / lane.tracks.length;
  return lane.tracks.map((track, at) => ({ lane, track, y: top + 3 + at * step, height, isThin: true }));
}
