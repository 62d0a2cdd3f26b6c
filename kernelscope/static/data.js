// The recording in the browser: inflates the payload, and decodes columns when they are first asked for.
// How columns are coded is told in kernelscope/views/timeline/wire.py.

export const NO_END = 1;
export const NO_START = 2;
export const NO_CALL = 4;
export const ENDED = 8; // of a launch's flags: its end is known

/** Inflate a payload of which the length is known. */
export async function inflate(payload, length) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old for the timeline: it has no DecompressionStream");
  }
  const packed = payload instanceof ArrayBuffer
    ? new Uint8Array(payload)
    : new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength);
  const inflater = new DecompressionStream("deflate-raw"), writer = inflater.writable.getWriter();
  // What is wrong with the data is thrown where it is read.
  writer.write(packed).catch(() => {});
  writer.close().catch(() => {});
  const reader = inflater.readable.getReader(), bytes = new Uint8Array(length);
  for (let at = 0; ;) {
    const { done, value } = await reader.read();
    if (done) {
      if (at !== length) throw new Error(`the data has ${at} bytes, not ${length}`);
      return bytes;
    }
    bytes.set(value, at);
    at += value.length;
  }
}

/** All that is known of a recording: its tables, its texts, its lanes. */
export class Model {
  constructor(header, bytes) {
    this.header = header;
    this.span = header.span_ns;
    this.lanes = header.lanes;
    this.facts = JSON.parse(new TextDecoder().decode(bytes.subarray(header.bytes)));
    this.words = this.facts.words;
    this.tables = {};
    for (const [name, spec] of Object.entries(header.tables)) {
      this.tables[name] = new Table(name, spec, this, bytes);
    }
    this.events = Object.values(header.tables).reduce((sum, table) => sum + table.rows, 0);
  }

  static async open(header, payload) {
    return new Model(header, await inflate(payload, header.inflated));
  }

  table(name) { return this.tables[name]; }

  /** The word that a column of codes has in a row; null for none. */
  word(table, column, row) {
    const code = this.tables[table].at(column, row);
    return code < 0 ? null : this.words[`${table}.${column}`][code];
  }

  /** The row of `gpu` with the first kernel of each launch, -1 for none. */
  get kernelOfLaunch() {
    if (!this._kernelOfLaunch) {
      const found = new Int32Array(this.tables.launches.rows).fill(-1);
      const launch = this.tables.gpu.col("launch");
      const kind = this.tables.gpu.col("kind");
      const kernel = this.words["gpu.kind"].indexOf("kernel");
      for (let i = launch.length - 1; i >= 0; i--) if (launch[i] >= 0 && kind[i] === kernel) found[launch[i]] = i;
      this._kernelOfLaunch = found;
    }
    return this._kernelOfLaunch;
  }

  /** By the row of `events` that launched a graph, the row of `graphs` that ran for it. */
  get runOfEvent() {
    if (!this._runOfEvent) {
      const event = this.tables.graphs.col("event");
      this._runOfEvent = new Map(Array.from(event, (asked, run) => [asked, run]).filter(([asked]) => asked >= 0));
    }
    return this._runOfEvent;
  }

  /** The rows of `gpu` that a row of `calls` asked for. */
  activitiesOfCall(row) {
    if (!this._activitiesOfCall) {
      this._activitiesOfCall = new Map();
      const call = this.tables.gpu.col("call");
      for (let i = 0; i < call.length; i++) {
        if (call[i] < 0) continue;
        const held = this._activitiesOfCall.get(call[i]);
        if (held) held.push(i); else this._activitiesOfCall.set(call[i], [i]);
      }
    }
    return this._activitiesOfCall.get(row) ?? [];
  }
}

/** A table of integer columns. */
export class Table {
  constructor(name, spec, model, bytes) {
    this.name = name;
    this.rows = spec.rows;
    this.model = model;
    this.bytes = bytes;
    this.specs = new Map(spec.columns.map((column) => [column.n, column]));
    this.held = new Map();
  }

  has(name) { return this.specs.has(name); }

  at(name, row) {
    const spec = this.specs.get(name);
    if (!spec.p && !spec.k) return spec.b;
    return this.col(name)[row];
  }

  /** A column as a Float64Array: all of one type, so that the loops over them stay fast. */
  col(name) {
    let values = this.held.get(name);
    if (!values) {
      values = this.decode(this.specs.get(name));
      this.held.set(name, values);
    }
    return values;
  }

  decode(spec) {
    if (spec.p === "sum") return sumOf(spec.of.map((part) => this.col(part)));
    const out = new Float64Array(this.rows);
    this.residuals(spec, out);
    this.predict(spec, out);
    return out;
  }

  residuals(spec, out) {
    const n = this.rows, planes = [];
    for (let k = 0; k < (spec.k ?? 0); k++) planes.push(this.bytes.subarray(spec.at + k * n, spec.at + (k + 1) * n));
    if (planes.length < 2 && spec.b) out.fill(spec.b);
    if (planes.length === 1) addPlane(out, planes[0], 1);
    else if (planes.length > 1) joinPlanes(out, planes[0], planes[1], spec.b);
    for (let k = 2; k < planes.length; k++) addPlane(out, planes[k], 256 ** k);
  }

  predict(spec, out) {
    if (spec.p === "delta") addBefore(out, spec.v);
    else if (spec.p === "gap") addEndBefore(out, spec.v, this.col(spec.dur));
    else if (spec.p === "via") addLinked(out, spec.v, this.col(spec.key), this.model.table(spec.of[0]).col(spec.of[1]));
    else if (spec.p === "map") addMapped(out, this.col(spec.key), spec.map);
  }
}

function sumOf([first, second, ...more]) {
  const out = new Float64Array(first.length);
  for (let i = 0; i < out.length; i++) out[i] = first[i] + second[i];
  for (const values of more) for (let i = 0; i < out.length; i++) out[i] += values[i];
  return out;
}

function addPlane(out, plane, scale) { for (let i = 0; i < out.length; i++) out[i] += plane[i] * scale; }

function joinPlanes(out, low, high, base) {
  for (let i = 0; i < out.length; i++) out[i] = base + low[i] + 256 * high[i];
}

function addBefore(out, before) { for (let i = 0; i < out.length; i++) before = out[i] += before; }

function addEndBefore(out, before, lasting) {
  for (let i = 0; i < out.length; i++) before = (out[i] += before) + lasting[i];
}

function addLinked(out, before, key, near) {
  for (let i = 0; i < out.length; i++) before = out[i] += key[i] >= 0 ? near[key[i]] : before;
}

function addMapped(out, key, map) { for (let i = 0; i < out.length; i++) out[i] += map[key[i] + 1]; }
