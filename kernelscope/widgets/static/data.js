// The recording in the browser: inflates the payload, and decodes columns when they are first asked for.
// How columns are coded is told in kernelscope/widgets/packing_columns.py.

export const NO_END = 1;
export const NO_START = 2;
export const NO_CALL = 4;
export const ENDED = 8; // of a launch's flags: its end is known

export async function inflate(payload) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old for the timeline: it has no DecompressionStream");
  }
  const packed = payload instanceof ArrayBuffer
    ? new Uint8Array(payload)
    : new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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
    return new Model(header, await inflate(payload));
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

  /** A column as a typed array: Int32Array, or Float64Array where a value needs it. */
  col(name) {
    let values = this.held.get(name);
    if (!values) {
      values = this.decode(this.specs.get(name));
      this.held.set(name, values);
    }
    return values;
  }

  decode(spec) {
    const n = this.rows;
    if (spec.p === "sum") return this.sum(spec);
    const wide = spec.f || spec.k > 3 || Math.abs(spec.b) > 2 ** 30;
    const out = wide ? new Float64Array(n) : new Int32Array(n);
    this.residuals(spec, out);
    this.predict(spec, out);
    return out;
  }

  sum(spec) {
    const out = new Float64Array(this.rows);
    for (const part of spec.of) {
      const values = this.col(part);
      for (let i = 0; i < out.length; i++) out[i] += values[i];
    }
    return out;
  }

  residuals(spec, out) {
    const n = this.rows, base = spec.b, planes = [];
    for (let k = 0; k < (spec.k ?? 0); k++) planes.push(this.bytes.subarray(spec.at + k * n, spec.at + (k + 1) * n));
    const [low, high, top] = planes;
    if (!planes.length) out.fill(base);
    else if (planes.length === 1) for (let i = 0; i < n; i++) out[i] = base + low[i];
    else if (planes.length === 2) for (let i = 0; i < n; i++) out[i] = base + low[i] + 256 * high[i];
    else {
      for (let i = 0; i < n; i++) out[i] = base + low[i] + 256 * high[i] + 65536 * top[i];
      for (let k = 3, scale = 2 ** 24; k < planes.length; k++, scale *= 256) {
        const plane = planes[k];
        for (let i = 0; i < n; i++) out[i] += plane[i] * scale;
      }
    }
  }

  predict(spec, out) {
    const n = this.rows;
    let before = spec.v;
    if (spec.p === "delta") {
      for (let i = 0; i < n; i++) before = out[i] += before;
    } else if (spec.p === "gap") {
      const lasting = this.col(spec.dur);
      before += spec.d;
      for (let i = 0; i < n; i++) before = (out[i] += before) + lasting[i];
    } else if (spec.p === "via") {
      const key = this.col(spec.key), near = this.model.table(spec.of[0]).col(spec.of[1]);
      for (let i = 0; i < n; i++) before = out[i] += key[i] >= 0 ? near[key[i]] : before;
    } else if (spec.p === "map") {
      const key = this.col(spec.key), map = spec.map;
      for (let i = 0; i < n; i++) out[i] += map[key[i] + 1];
    }
  }
}
