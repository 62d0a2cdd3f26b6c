// The recording in the browser: inflates the payload, and decodes columns when they are first asked for.
// How columns are coded is told in kernelscope/views/timeline/wire.py.

import { inflated } from "../shared/inflate";
import { type Axis, axisOf } from "./axis";
import type { ColumnSpec, Facts, Header, LaneSpec, TableName, TableSpec } from "./wire";

/** Of a launch's flags: its end is known. */
export const ENDED = 8;

const NOTHING: Facts = { words: {}, cells: [], lines: [], threads: [], devices: [], kernels: [], specializations: [],
  configurations: [], occupancies: [], compiles: [] };

/** All that is known of a recording: its tables, its texts, its lanes. */
export class Model {
  readonly lanes: LaneSpec[];
  readonly facts: Facts;
  readonly words: Record<string, string[]>;
  readonly tables: Record<TableName, Table>;
  /** How many events there are in all tables. */
  readonly events: number;
  /** Where times are drawn; the whole of it is `span` long. */
  axis: Axis;
  private firstKernels?: Int32Array;
  private runs?: Map<number, number>;
  private asked?: Map<number, number[]>;

  constructor(readonly header: Header, bytes: Uint8Array) {
    this.lanes = header.lanes;
    this.facts = bytes.length ? JSON.parse(new TextDecoder().decode(bytes.subarray(header.bytes))) : NOTHING;
    this.words = this.facts.words;
    this.tables = Object.fromEntries(Object.entries(header.tables).map(
      ([name, spec]) => [name, new Table(name as TableName, spec, this, bytes)])) as Record<TableName, Table>;
    this.events = Object.values(header.tables).reduce((sum, table) => sum + table.rows, 0);
    this.axis = axisOf(this, new Set());
  }

  get span(): number { return this.axis.place(this.header.span_ns); }

  /** A recording of which only the lanes are known yet. */
  static empty(header: Header): Model {
    const tables = Object.fromEntries(Object.entries(header.tables).map(
      ([name, { columns }]) => [name, { rows: 0, columns }])) as Header["tables"];
    return new Model({ ...header, tables }, new Uint8Array());
  }

  static async open(header: Header, payload: BufferSource): Promise<Model> {
    return new Model(header, await inflated(payload, header.inflated));
  }

  table(name: TableName): Table { return this.tables[name]; }

  /** The word that a column of codes has in a row; null for none. */
  word(table: TableName, column: string, row: number): string | null {
    const code = this.tables[table].at(column, row);
    return code < 0 ? null : this.words[`${table}.${column}`][code];
  }

  /** The line of code that made an event; -1 for none. */
  lineOf(table: TableName, row: number): number {
    return this.tables[table].has("line_id") ? this.tables[table].at("line_id", row) : -1;
  }

  /** The row of `gpu` with the first kernel of each launch, -1 for none. */
  get kernelOfLaunch(): Int32Array {
    if (!this.firstKernels) {
      const found = new Int32Array(this.tables.launches.rows).fill(-1);
      const launch = this.tables.gpu.col("launch");
      const kind = this.tables.gpu.col("kind");
      const kernel = this.words["gpu.kind"].indexOf("kernel");
      for (let i = launch.length - 1; i >= 0; i--) if (launch[i] >= 0 && kind[i] === kernel) found[launch[i]] = i;
      this.firstKernels = found;
    }
    return this.firstKernels;
  }

  /** By the row of `events` that launched a graph, the row of `graphs` that ran for it. */
  get runOfEvent(): Map<number, number> {
    if (!this.runs) {
      const event = this.tables.graphs.col("event");
      this.runs = new Map();
      for (let run = 0; run < event.length; run++) if (event[run] >= 0) this.runs.set(event[run], run);
    }
    return this.runs;
  }

  /** The rows of `gpu` that a row of `calls` asked for. */
  activitiesOfCall(row: number): number[] {
    if (!this.asked) {
      const asked = this.asked = new Map<number, number[]>();
      const call = this.tables.gpu.col("call");
      for (let i = 0; i < call.length; i++) {
        if (call[i] < 0) continue;
        const held = asked.get(call[i]);
        if (held) held.push(i); else asked.set(call[i], [i]);
      }
    }
    return this.asked.get(row) ?? [];
  }
}

/** A table of integer columns. */
export class Table {
  readonly rows: number;
  private readonly specs: Map<string, ColumnSpec>;
  private readonly held = new Map<string, Float64Array>();

  constructor(
    readonly name: TableName, spec: TableSpec, private readonly model: Model, private readonly bytes: Uint8Array,
  ) {
    this.rows = spec.rows;
    this.specs = new Map(spec.columns.map((column) => [column.n, column]));
  }

  has(name: string): boolean { return this.specs.has(name); }

  /** How a column is coded. */
  spec(name: string): ColumnSpec {
    const found = this.specs.get(name);
    if (!found) throw new Error(`the table ${this.name} has no column ${name}`);
    return found;
  }

  /** A value; of a column that is not decoded, and needs no other row's value, alone: a tooltip asks for many columns. */
  at(name: string, row: number): number {
    const spec = this.spec(name), held = this.held.get(name);
    if (held) return held[row];
    if (!spec.p || spec.p === "raw") return this.residual(spec, row);
    if (spec.p === "map") return this.residual(spec, row) + spec.map[this.at(spec.key, row) + 1];
    if (spec.p === "sum") return spec.of.reduce((sum, part) => sum + this.at(part, row), 0);
    if (spec.p === "via") {
      const key = this.at(spec.key, row);
      if (key >= 0) return this.residual(spec, row) + this.model.table(spec.of[0]).at(spec.of[1], key);
    }
    return this.col(name)[row];
  }

  private residual({ b, k: count = 0, at = 0 }: ColumnSpec & { p?: Exclude<ColumnSpec["p"], "sum"> }, row: number) {
    let value = b;
    for (let k = 0; k < count; k++) value += this.bytes[at + k * this.rows + row] * 256 ** k;
    return value;
  }

  /** A column as a Float64Array: all of one type, so that the loops over them stay fast. */
  col(name: string): Float64Array {
    let values = this.held.get(name);
    if (!values) {
      values = this.decode(this.spec(name));
      this.held.set(name, values);
    }
    return values;
  }

  /** When some rows began, in real time. */
  timesOf(ids: Int32Array): Float64Array {
    const start = this.col("start");
    return Float64Array.from(ids, (id) => start[id]);
  }

  private decode(spec: ColumnSpec): Float64Array {
    if (spec.p === "sum") return sumOf(spec.of.map((part) => this.col(part)));
    const out = new Float64Array(this.rows);
    this.residuals(spec, out);
    this.predict(spec, out);
    return out;
  }

  private residuals(spec: ColumnSpec, out: Float64Array) {
    const n = this.rows, { k: count = 0, at = 0 } = spec, planes: Uint8Array[] = [];
    for (let k = 0; k < count; k++) planes.push(this.bytes.subarray(at + k * n, at + (k + 1) * n));
    if (planes.length < 2 && spec.b) out.fill(spec.b);
    if (planes.length === 1) addPlane(out, planes[0], 1);
    else if (planes.length > 1) joinPlanes(out, planes[0], planes[1], spec.b);
    for (let k = 2; k < planes.length; k++) addPlane(out, planes[k], 256 ** k);
  }

  private predict(spec: ColumnSpec, out: Float64Array) {
    if (spec.p === "delta") addBefore(out, spec.v);
    else if (spec.p === "gap") addEndBefore(out, spec.v, this.col(spec.dur));
    else if (spec.p === "via") addLinked(out, spec.v, this.col(spec.key), this.model.table(spec.of[0]).col(spec.of[1]));
    else if (spec.p === "map") addMapped(out, this.col(spec.key), spec.map);
  }
}

function sumOf([first, second, ...more]: Float64Array[]) {
  const out = new Float64Array(first.length);
  for (let i = 0; i < out.length; i++) out[i] = first[i] + second[i];
  for (const values of more) for (let i = 0; i < out.length; i++) out[i] += values[i];
  return out;
}

function addPlane(out: Float64Array, plane: Uint8Array, scale: number) {
  for (let i = 0; i < out.length; i++) out[i] += plane[i] * scale;
}

function joinPlanes(out: Float64Array, low: Uint8Array, high: Uint8Array, base: number) {
  for (let i = 0; i < out.length; i++) out[i] = base + low[i] + 256 * high[i];
}

function addBefore(out: Float64Array, before: number) {
  for (let i = 0; i < out.length; i++) before = out[i] += before;
}

function addEndBefore(out: Float64Array, before: number, lasting: Float64Array) {
  for (let i = 0; i < out.length; i++) before = (out[i] += before) + lasting[i];
}

function addLinked(out: Float64Array, before: number, key: Float64Array, near: Float64Array) {
  for (let i = 0; i < out.length; i++) before = out[i] += key[i] >= 0 ? near[key[i]] : before;
}

function addMapped(out: Float64Array, key: Float64Array, map: number[]) {
  for (let i = 0; i < out.length; i++) out[i] += map[key[i] + 1];
}
