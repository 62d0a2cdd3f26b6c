// Tracks and their levels of detail: how busy a track is in a stretch of time from sums that were made once, and what
// lasted longest in it from a pyramid. A frame costs what its pixels cost, however many events lie in them.

import { NO_END, NO_START, PARTS, PHASES, PHASE_UNKNOWN } from "../shared/generated";
import { above } from "./axis";
import { ENDED, type Model, type Table } from "./model";
import type { TableName, TrackSpec } from "./wire";

const FAN = 16, STRIDE = 16;
/** So many events a column are gone through one by one. */
const FEW = 40;
/** The phases by their places in `PHASES`, and how many segments a launch has: the dispatch is on both sides. */
const DISPATCH = 0, COMPILE = 1, PREPARE = 3, SUBMIT = 4, FINISH = 6;
export const COMPILE_WAIT = 2, MEASURING = 5, SEGMENTS = 8;

type Ids = Int32Array | null;

/** Blocks of events: how long the longest of each lasts, and which it is. */
interface Level {
  most: Float64Array;
  event: Int32Array;
}

/** Events of one track, in order of start. */
export class Track {
  readonly table: Table;
  /** How many events it has. */
  readonly n: number;
  /** Where they begin and end on the axis. */
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly reach: Float64Array;
  private coarse?: Float64Array;
  private sums?: Float64Array;
  private levels?: Level[];

  /** Without `ids` the track has all rows of its table. */
  constructor(
    readonly model: Model, readonly spec: TrackSpec, readonly ids: Ids, times: Float64Array,
  ) {
    const { axis } = model;
    this.table = model.table(spec.table);
    this.n = times.length;
    this.start = axis.breaks.length ? times.map((time) => axis.place(time)) : times;
    this.end = this.ends(times);
    this.reach = this.reaches();
  }

  id(i: number) { return this.ids ? this.ids[i] : i; }

  /** Whether the end of an event is unknown. */
  isOpen(i: number) {
    const flags = this.table.at("flags", this.id(i));
    return this.spec.table === "launches" ? !(flags & ENDED) : Boolean(flags & NO_END);
  }

  isUnstarted(i: number) {
    return this.spec.table !== "launches" && Boolean(this.table.at("flags", this.id(i)) & NO_START);
  }

  private ends(times: Float64Array) {
    const end = new Float64Array(this.n), lasting = this.table.col("dur"), { start, ids, model: { axis } } = this;
    if (ids) for (let i = 0; i < end.length; i++) end[i] = times[i] + Math.max(0, lasting[ids[i]]);
    else for (let i = 0; i < end.length; i++) end[i] = times[i] + Math.max(0, lasting[i]);
    if (axis.breaks.length) for (let i = 0; i < end.length; i++) end[i] = axis.place(end[i]);
    const flags = this.table.spec("flags");
    const usual = this.spec.table === "launches" ? Boolean(flags.b & ENDED) : !(flags.b & NO_END);
    if (flags.k || flags.p || !usual) {
      this.table.col("flags"); // all of it is asked for
      // What has no end lasts until the next event of its track begins, or the recording ends.
      for (let i = 0; i < this.n; i++) {
        if (this.isOpen(i)) end[i] = Math.max(end[i], i + 1 < this.n ? start[i + 1] : this.model.span);
      }
    }
    return end;
  }

  /** The latest end so far; the ends themselves where nothing overlaps. */
  private reaches() {
    const { start, end } = this;
    let i = 1;
    while (i < this.n && start[i] >= end[i - 1]) i++;
    if (i >= this.n) return end;
    const reach = Float64Array.from(end);
    for (i = 1; i < this.n; i++) if (reach[i] < reach[i - 1]) reach[i] = reach[i - 1];
    return reach;
  }

  /**
   * How many events began by a time. A coarse copy of the starts is searched first: it fits the processor's cache, and
   * where a number not above the wanted one is given, it is walked on from there.
   */
  begunBy(time: number, least = -1) {
    this.coarse ??= everyNth(this.start, STRIDE);
    const { coarse } = this;
    let block = Math.floor(least / STRIDE);
    const stop = Math.min(coarse.length, block + 96);
    if (block >= 0) while (block + 1 < stop && coarse[block + 1] <= time) block += 1;
    if (block < 0 || block + 1 === stop) block = above(coarse, time) - 1;
    if (block < 0) return 0;
    const from = block * STRIDE;
    return above(this.start, time, from, Math.min(this.n, from + STRIDE));
  }

  /** The first event that has not ended by a time, where `begun` began by then. */
  firstOpen(time: number, begun: number) {
    if (this.reach !== this.end) return above(this.reach, time);
    return begun && this.end[begun - 1] > time ? begun - 1 : begun;
  }

  /** Events that may show between two times: from the first index on, up to before the second. */
  visible(from: number, to: number): [number, number] {
    return [this.firstOpen(from, this.begunBy(from)), this.begunBy(to)];
  }

  /** Nanoseconds before `time` in which the track was busy; `i` is the last event that began by then. */
  busyUntil(time: number, i = this.begunBy(time) - 1) {
    this.sums ??= this.sumBusy();
    if (i < 0) return 0;
    const { start, end, reach } = this, block = Math.floor(i / STRIDE);
    let busy = this.sums[block];
    for (let at = block * STRIDE; at < i; at++) busy += Math.max(0, end[at] - uncovered(start, reach, at));
    return busy + Math.max(0, Math.min(time, end[i]) - uncovered(start, reach, i));
  }

  /** How long the track was busy with all events before each `STRIDE`-th one. */
  private sumBusy() {
    const { n, start, end, reach } = this, sums = new Float64Array(Math.ceil(n / STRIDE));
    for (let i = 0, busy = 0; i < n; i++) {
      if (i % STRIDE === 0) sums[i / STRIDE] = busy;
      busy += Math.max(0, end[i] - uncovered(start, reach, i));
    }
    return sums;
  }

  /**
   * The longest event of those from index `from` up to before `to`. Of many, blocks count where they begin, so that no
   * event is overlooked and none needs a look of its own.
   */
  longest(from: number, to: number) {
    this.levels ??= this.pyramid();
    let level = -1, a = from, b = to;
    while (b - a > 8 * FAN && level + 1 < this.levels.length) {
      a = Math.ceil(a / FAN);
      b = Math.ceil(b / FAN);
      level += 1;
    }
    const { start, end } = this, held = level < 0 ? null : this.levels[level];
    let best = a, most = -1;
    for (let at = a; at < b; at++) {
      const lasting = held ? held.most[at] : end[at] - start[at];
      if (lasting > most) { most = lasting; best = at; }
    }
    return held ? held.event[best] : best;
  }

  /** The events between two times that last as long as `least`, in order. */
  lasting(t0: number, t1: number, least: number) {
    const [from, to] = this.visible(t0, t1), found: number[] = [], { start, end } = this;
    this.levels ??= this.pyramid();
    const [blocks, groups] = this.levels;
    for (let block = Math.floor(from / FAN); block * FAN < to; block++) {
      if (groups && groups.most[Math.floor(block / FAN)] < least) {
        block = Math.floor(block / FAN) * FAN + FAN - 1;
        continue;
      }
      if (blocks && blocks.most[block] < least) continue;
      const stop = Math.min(to, block * FAN + FAN);
      for (let i = Math.max(from, block * FAN); i < stop; i++) if (end[i] - start[i] >= least) found.push(i);
    }
    return found;
  }

  /** For each block of events, and for each block of such blocks, the longest event and how long it lasted. */
  private pyramid() {
    const levels = [], { start, end } = this;
    for (let below = null, n = this.n; n > FAN;) {
      const size = Math.ceil(n / FAN), event = new Int32Array(size), most = new Float64Array(size).fill(-1);
      for (let i = 0; i < n; i++) {
        const at = Math.floor(i / FAN), lasting = below ? below.most[i] : end[i] - start[i];
        if (lasting > most[at]) { most[at] = lasting; event[at] = below ? below.event[i] : i; }
      }
      below = { event, most };
      levels.push(below);
      n = size;
    }
    return levels;
  }
}

/** Launches of one track, with their phases. */
export class LaunchTrack extends Track {
  /** Bounds of the segments that `segments` filled in last, and their phases. */
  readonly times = new Float64Array(SEGMENTS + 1);
  readonly kinds = new Uint8Array(SEGMENTS);
  private readonly parts: Float64Array[];
  private readonly flags: Float64Array;
  private readonly compiling: Float64Array;
  private readonly waiting: Float64Array;
  private readonly measuring: Float64Array;
  private phaseSums?: Float64Array;

  constructor(model: Model, spec: TrackSpec, ids: Ids, start: Float64Array) {
    super(model, spec, ids, start);
    const table = this.table;
    this.parts = ["part0", "part1", "part2", "part3"].map((name) => table.col(name));
    this.flags = table.col("flags");
    this.compiling = table.col("compile_ns");
    this.waiting = table.col("compile_wait_ns");
    this.measuring = table.col("measuring_ns");
  }

  /** Fill `times` with the bounds of a launch's segments and `kinds` with their phases. */
  segments(i: number) {
    const { times, kinds, parts } = this, id = this.id(i), flags = this.flags[id];
    const start = this.start[i], compiling = this.compiling[id];
    let at = start;
    times[0] = at;
    at += parts[0][id];
    times[4] = at;
    const compile = Math.min(Math.max(0, compiling), parts[0][id]);
    times[1] = compile ? this.compileStart(id, start, at, compile) : at;
    times[2] = times[1] + Math.min(this.waiting[id], compile);
    times[3] = times[1] + compile;
    at += parts[1][id];
    times[5] = at;
    times[6] = at + (flags & 2 && flags & 4 ? Math.min(this.measuring[id], parts[2][id]) : 0);
    at += parts[2][id];
    times[7] = at;
    times[8] = flags & ENDED ? at + parts[3][id] : this.end[i];
    kinds[0] = kinds[3] = compiling >= 0 ? DISPATCH : PHASE_UNKNOWN;
    kinds[1] = COMPILE_WAIT; kinds[2] = COMPILE; kinds[4] = PREPARE; kinds[5] = MEASURING; kinds[6] = SUBMIT;
    kinds[7] = FINISH;
    if (flags !== 15) {
      if (!(flags & 1)) kinds[0] = kinds[3] = kinds[4] = PHASE_UNKNOWN;
      if (!(flags & 2)) kinds[4] = kinds[6] = PHASE_UNKNOWN;
      if (!(flags & 4)) kinds[6] = kinds[7] = PHASE_UNKNOWN;
      if (!(flags & 8)) kinds[7] = PHASE_UNKNOWN;
    }
  }

  /** When the compile inside a launch began: as its own row says, else just before the dispatch ended. */
  private compileStart(id: number, start: number, dispatched: number, compile: number) {
    const row = this.table.at("compilation_id", id);
    const told = row >= 0 ? this.model.axis.place(this.model.table("compiles").at("start", row)) : Infinity;
    return Math.max(start, Math.min(told, dispatched - compile));
  }

  /** Fill `out` with the nanoseconds of each phase before `time`; `i` is the last event that began by then. */
  phasesUntil(time: number, out: Float64Array, i = this.begunBy(time) - 1) {
    this.phaseSums ??= this.sumPhases();
    if (i < 0) { out.fill(0); return; }
    const block = Math.floor(i / STRIDE);
    const count = PHASES.length;
    for (let phase = 0; phase < count; phase++) out[phase] = this.phaseSums[count * block + phase];
    for (let at = block * STRIDE; at < i; at++) this.addPhases(at, out);
    if (time >= this.end[i]) { this.addPhases(i, out); return; }
    this.segments(i);
    const { times, kinds } = this;
    for (let at = 0; at < SEGMENTS; at++) {
      const spent = Math.min(time, times[at + 1]) - times[at];
      if (spent > 0) out[kinds[at]] += spent;
    }
  }

  /** Add the nanoseconds of each phase of a launch. */
  private addPhases(i: number, out: Float64Array) {
    const { flags, compiling, waiting, measuring, parts, times, kinds } = this, id = this.id(i), compile = compiling[id];
    const dispatched = parts[0][id];
    if (flags[id] === 15 && compile >= 0 && compile <= dispatched) {
      out[DISPATCH] += dispatched - compile;
      out[COMPILE] += compile - waiting[id];
      out[COMPILE_WAIT] += waiting[id];
      out[PREPARE] += parts[1][id];
      out[SUBMIT] += parts[2][id] - Math.min(measuring[id], parts[2][id]);
      out[MEASURING] += Math.min(measuring[id], parts[2][id]);
      out[FINISH] += parts[3][id];
      return;
    }
    this.segments(i);
    for (let at = 0; at < SEGMENTS; at++) out[kinds[at]] += Math.max(0, times[at + 1] - times[at]);
  }

  /** Sums of each phase before each `STRIDE`-th launch, of all phases together. */
  private sumPhases() {
    const { n } = this, count = PHASES.length;
    const sums = new Float64Array(count * Math.ceil(n / STRIDE)), spent = new Float64Array(count);
    for (let i = 0; i < n; i++) {
      if (i % STRIDE === 0) sums.set(spent, (i / STRIDE) * count);
      this.addPhases(i, spent);
    }
    return sums;
  }
}

/** Samples of a counter, which do not overlap. */
export class AreaTrack extends Track {
  /** Those that were lost. */
  readonly lost: number[] = [];
  private readonly values: Float64Array;
  /** Before each sample: the time that is sampled, and the sum of value and time in it. */
  private readonly known: Float64Array;
  private readonly totals: Float64Array;

  constructor(model: Model, spec: TrackSpec, ids: Ids, times: Float64Array) {
    super(model, spec, ids, times);
    const { n, start, end } = this, value = this.table.col("value");
    this.values = Float64Array.from(start, (_, i) => value[this.id(i)]);
    this.known = new Float64Array(n + 1);
    this.totals = new Float64Array(n + 1);
    for (let i = 0; i < n; i++) {
      const isLost = this.values[i] < 0, took = isLost ? 0 : end[i] - start[i];
      if (isLost) this.lost.push(i);
      this.known[i + 1] = this.known[i] + took;
      this.totals[i + 1] = this.totals[i] + took * this.values[i];
    }
  }

  /** Fill in the mean of each column of `step` nanoseconds from `least` on, 0 to 1; NaN where no sample is known. */
  means(least: number, step: number, out: Float64Array) {
    const { start, end, values, known, totals } = this;
    let before = 0, sumBefore = 0;
    for (let x = -1, begun = this.begunBy(least); x < out.length; x++) {
      const time = least + (x + 1) * step;
      begun = this.begunBy(time, begun);
      const i = begun - 1, inside = i < 0 || values[i] < 0 ? 0 : Math.min(time, end[i]) - start[i];
      const until = i < 0 ? 0 : known[i] + inside, sum = i < 0 ? 0 : totals[i] + inside * Math.max(0, values[i]);
      if (x >= 0) out[x] = until > before ? (sum - sumBefore) / (until - before) / (100 * PARTS) : NaN;
      [before, sumBefore] = [until, sum];
    }
  }
}

/** Add to each column of `step` nanoseconds the share in which a track was busy; the first begins at `least`. */
export function addShares(track: Track, least: number, step: number, shares: Float64Array): void {
  let begun = track.begunBy(least);
  const [first, after] = [track.firstOpen(least, begun), track.begunBy(least + shares.length * step)];
  if (after - first < FEW * shares.length) {
    addEvents(track, first, after, least, step, shares);
    return;
  }
  let busy = track.busyUntil(least, begun - 1);
  for (let x = 0; x < shares.length; x++) {
    const time = least + (x + 1) * step;
    begun = track.begunBy(time, begun);
    const until = track.busyUntil(time, begun - 1);
    shares[x] += (until - busy) / step;
    busy = until;
  }
}

/** Add events from index `first` up to before `after`, one by one, to the columns in which they were under way. */
function addEvents(
  { start, end, reach }: Track, first: number, after: number, least: number, step: number, shares: Float64Array,
) {
  const columns = shares.length, last = columns - 1;
  for (let i = first; i < after; i++) {
    const from = Math.max(0, (uncovered(start, reach, i) - least) / step);
    const to = Math.min(columns, (end[i] - least) / step);
    if (to <= from) continue;
    const x = from | 0, until = Math.min(last, to | 0);
    if (x === until) shares[x] += to - from;
    else {
      shares[x] += x + 1 - from;
      for (let at = x + 1; at < until; at++) shares[at] += 1;
      shares[until] += to - until;
    }
  }
}

/** From when on an event covers what none before it did. */
function uncovered(start: Float64Array, reach: Float64Array, i: number): number {
  return i && reach[i - 1] > start[i] ? reach[i - 1] : start[i];
}

/** Make the tracks of all lanes; rows of a table come to their track in order. */
export function makeTracks(model: Model): Map<number, Track> {
  const specs = new Map<number, TrackSpec>(), byTable = new Map<TableName, number>();
  for (const lane of model.lanes) {
    for (const spec of lane.tracks) {
      specs.set(spec.track, spec);
      byTable.set(spec.table, (byTable.get(spec.table) ?? 0) + 1);
    }
  }
  const tracks = new Map<number, Track>();
  const make = (spec: TrackSpec, ids: Ids, start: Float64Array) => {
    const Kind = spec.table === "launches" ? LaunchTrack : spec.table === "samples" ? AreaTrack : Track;
    tracks.set(spec.track, new Kind(model, spec, ids, start));
  };
  for (const [name, number] of byTable) {
    const table = model.table(name), mine = [...specs.values()].filter((spec) => spec.table === name);
    if (number === 1) make(mine[0], null, table.col("start"));
    else split(table, mine, make);
  }
  return tracks;
}

function split(table: Table, specs: TrackSpec[], make: (spec: TrackSpec, ids: Ids, start: Float64Array) => void) {
  const track = table.col("track"), start = table.col("start");
  const first = Math.min(...specs.map((spec) => spec.track)), counts: number[] = [];
  for (let i = 0; i < track.length; i++) counts[track[i] - first] = (counts[track[i] - first] ?? 0) + 1;
  const ids: Int32Array[] = [], starts: Float64Array[] = [];
  for (const spec of specs) {
    const at = spec.track - first;
    ids[at] = new Int32Array(counts[at] ?? 0);
    starts[at] = new Float64Array(counts[at] ?? 0);
    counts[at] = 0;
  }
  for (let i = 0; i < track.length; i++) {
    const at = track[i] - first, place = counts[at]++;
    ids[at][place] = i;
    starts[at][place] = start[i];
  }
  for (const spec of specs) make(spec, ids[spec.track - first], starts[spec.track - first]);
}

function everyNth(values: Float64Array, step: number) {
  const out = new Float64Array(Math.ceil(values.length / step));
  for (let at = 0; at < out.length; at++) out[at] = values[at * step];
  return out;
}
