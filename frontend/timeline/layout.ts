// Where lanes and tracks are, from the top down, in CSS pixels.

import type { Model } from "./model";
import type { Track } from "./tracks";
import type { LaneSpec, TableName } from "./wire";

const HEIGHTS: Record<TableName, number> = {
  cells: 18, ranges: 17, launches: 26, compiles: 16, passes: 13, events: 16, builds: 16, calls: 13, graphs: 17, gpu: 22,
  collections: 16,
};
const MARKS = 12, NESTED = 20, GAP = 2, PADDING = 5, LEAST = 36, FOLDED = 20;

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
  index: number;
  tracks: Track[];
  isFolded: boolean;
  rows: Row[];
  y: number;
  height: number;
}

export class Layout {
  readonly lanes: Lane[];
  height = 0;

  constructor(model: Model, tracks: Map<number, Track>) {
    this.lanes = model.lanes.map((spec, index) => ({
      spec, index, tracks: spec.tracks.flatMap((each) => tracks.get(each.track) ?? []), isFolded: false, rows: [], y: 0,
      height: 0,
    }));
    this.place();
  }

  private place() {
    let y = 0;
    for (const lane of this.lanes) {
      lane.y = y;
      lane.rows = lane.isFolded ? folded(lane, y) : open(lane, y);
      const last = lane.rows[lane.rows.length - 1];
      lane.height = lane.isFolded ? FOLDED : Math.max(LEAST, last.y + last.height - y + PADDING);
      y += lane.height;
    }
    this.height = y;
  }

  fold(lane: Lane, isFolded: boolean = !lane.isFolded) {
    lane.isFolded = isFolded;
    this.place();
  }

    rowAt(y: number): Row | null {
    const lane = this.lanes.find((each) => y >= each.y && y < each.y + each.height);
    return lane?.rows.find((row) => y >= row.y - 1 && y < row.y + row.height + 1) ?? null;
  }

  /** Where the row of a track is; null where its lane has none. */
  rowOf(track: Track): Row | null {
    for (const lane of this.lanes) for (const row of lane.rows) if (row.track === track) return row;
    return null;
  }
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
