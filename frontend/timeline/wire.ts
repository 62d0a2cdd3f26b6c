// What kernelscope/views/timeline packs: the header beside the payload, columns, and the small tables as JSON.

export type TableName = "cells" | "ranges" | "launches" | "compiles" | "passes" | "events" | "builds" | "calls"
  | "collections" | "graphs" | "gpu" | "samples";

interface Planes {
  /** Its name. */
  n: string;
  /** The least difference to the prediction. */
  b: number;
  /** How many planes of bytes there are, and where the first one begins. */
  k?: number;
  at?: number;
}

/** A column: planes of bytes and the prediction that they are added to; kernelscope/views/timeline/wire.py says how. */
export type ColumnSpec = Planes & (
  | { p?: "raw" }
  | { p: "delta"; v: number }
  | { p: "gap"; v: number; dur: string }
  | { p: "via"; v: number; key: string; of: [table: TableName, column: string] }
  | { p: "map"; key: string; map: number[] }
  | { p: "sum"; of: string[] }
);

export interface TableSpec {
  rows: number;
  columns: ColumnSpec[];
}

export interface TrackSpec {
  track: number;
  table: TableName;
  depth: number;
  kind?: string;
}

export interface LaneSpec {
  group: string;
  label: string;
  note: string;
  tracks: TrackSpec[];
  /** Where the header has several: which of its processes it is of. */
  process?: number;
}

/** A process of several: how far its times can be off in nanoseconds, and what else is known of it. */
export interface ProcessSpec {
  label: string;
  host: string;
  bound: number | null;
  about: [label: string, value: string][];
}

export interface Header {
  title: string;
  notice?: string;
  span_ns: number;
  /** Where the columns end and the small tables begin, and how long both are. */
  bytes: number;
  inflated: number;
  lanes: LaneSpec[];
  tables: Record<TableName, TableSpec>;
  undrawn: number;
  left_out: string[];
  /** Several processes, machine by machine, of which lanes are grouped; and whether the groups begin folded. */
  processes?: ProcessSpec[];
  folded?: boolean;
  /**
   * Of a large timeline, by track, and by process as `p0`: colors, and for each a byte a column of the whole time, its
   * share, as base64.
   */
  overview?: Record<string, [color: string, shares: string][]>;
  /** The flame graph of its call paths, packed, as base64. */
  flame?: string;
}

/** The small tables, one list each; what is not known is left out. */
export interface Facts {
  /** What codes stand for, by table and column. */
  words: Record<string, string[]>;
  cells: { label: string; status?: string; error?: string; source?: string; sync?: number;
    process?: string }[];
  /** Lines of code; those of libraries are empty. */
  lines: { at?: string; in?: string }[];
  threads: { label: string; ident: string; process?: string }[];
  devices: { ordinal: number | null; name: string | null; cc: string | null; owner?: string }[];
  kernels: { name: string }[];
  specializations: {
    /** By what other views know it. */
    key?: string;
    signature: string; cc?: string; regs?: number; shared?: number; local?: number; lcs?: boolean; bound?: string;
  }[];
  configurations: { grid?: string; block?: string; cluster?: string; shared?: number; stream?: string }[];
  /** Specialization, configuration, device, occupancy. */
  occupancies: [number, number, number, number | null][];
  compiles: Compile[];
}

export interface Compile {
  signature: string;
  outcome: string;
  trigger?: string;
  reason?: string;
  fix?: string;
  wait?: number;
  file?: string;
  error?: string;
  passes?: [name: string, ns: number][];
}

/** The data of a timeline. */
export interface Packed {
  header: Header;
  payload: BufferSource | Promise<BufferSource>;
}
