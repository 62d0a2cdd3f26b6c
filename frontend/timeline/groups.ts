// Groups of lanes: the processes of a merged recording, machine by machine. A group's header has one lane of its own,
// which shows how busy its processes were: the host above, the GPUs below.

import { COLORS, KERNEL_COLORS, PHASE_COLORS } from "../shared/generated";
import { duration, percent } from "../shared/text";
import type { Description } from "./describe";
import type { Lane } from "./layout";
import type { Raster, View } from "./view";
import type { Header, TableName } from "./wire";
import { Track, addShares } from "./tracks";

/** What is shown of a process: its table, its color, what it is called, and whether it is of the GPU. */
const KINDS: readonly [TableName, string, string, boolean][] = [
  ["launches", PHASE_COLORS[0], "host in launches", false], ["compiles", COLORS.compile, "compiling", false],
  ["gpu", KERNEL_COLORS[2], "GPU busy", true],
];
/** The whole time has so many bins, from which columns are drawn that are no shorter. */
const BINS = 32768;
/** What a bin counts that was busy all the time: so much that all bins together are a 32-bit integer. */
const FULL = 65535;
/** From nearer, or in a search, columns of machines of more processes than `MANY` are this many pixels wide. */
const MANY = 4, COARSE = 4;

/** A group's header, from the top down: machines where there are several, and under each its processes. */
export interface GroupSpec {
  kind: "machine" | "worker";
  label: string;
  note: string;
  /** Places in the header's processes. */
  processes: number[];
  beginsFolded: boolean;
}

/** The groups of a recording of several processes; a machine's come after it. */
export function groupsOf({ processes = [], folded = false }: Header): GroupSpec[] {
  const machines = new Set(processes.map(({ host }) => host)), found: GroupSpec[] = [];
  let machine: GroupSpec | null = null, of = "";
  processes.forEach(({ label, host, bound }, at) => {
    if (machines.size > 1 && (!machine || host !== of)) {
      of = host;
      machine = { kind: "machine", label: host || "unknown machine", note: "", processes: [], beginsFolded: false };
      found.push(machine);
    }
    machine?.processes.push(at);
    found.push({ kind: "worker", label, note: bound === null ? "" : `±${duration(bound)}`, processes: [at],
      beginsFolded: folded });
  });
  for (const each of found) if (each.kind === "machine") each.note = `${each.processes.length} processes`;
  return found;
}

/** When processes were busy, on average: their events, a track each, and how much they were busy before each bin. */
interface Held {
  tracks: Track[];
  until: Int32Array;
}

/** How busy the processes were. */
export class Busy {
  private readonly held = new Map<string, Held | null>();
  private columns = { shares: new Float64Array(), ends: new Int32Array() };

  constructor(private readonly view: View) {}

  /** What is known of those processes that have such events; null for none. */
  private of(processes: number[], kind: number): Held | null {
    const key = `${processes} ${kind}`;
    let found = this.held.get(key);
    if (found === undefined) {
      const [process] = processes;
      if (processes.length > 1) found = averaged(processes.flatMap((each) => this.of([each], kind) ?? []));
      else found = this.view.overview ? this.ofOverview(process, kind) : this.ofEvents(process, kind);
      this.held.set(key, found);
    }
    return found;
  }

  private ofOverview(process: number, kind: number): Held | null {
    const held = this.view.overview?.[`p${process}`]?.find(([color]) => color === KINDS[kind][1]);
    return held ? { tracks: [], until: summed(Float64Array.from(atob(held[1]), (each) => each.charCodeAt(0) / 255)) }
      : null;
  }

  private ofEvents(process: number, kind: number): Held | null {
    const { model, tracks } = this.view, [table] = KINDS[kind];
    const own = model.lanes.filter((lane) => lane.process === process).flatMap((lane) => lane.tracks)
      .flatMap((spec) => (spec.table === table ? tracks.get(spec.track) ?? [] : []));
    if (!own.length) return null;
    const track = own.length > 1 ? together(own) : own[0], bins = new Float64Array(BINS);
    addShares(track, 0, model.span / BINS, bins);
    return { tracks: [track], until: summed(bins) };
  }

  /**
   * Fill `shares` with the share of each column in which processes were busy, on average of those that have such
   * events; whether any has.
   */
  fill(processes: number[], kind: number, from: number, step: number, shares: Float64Array): boolean {
    const held = this.of(processes, kind);
    if (!held) return false;
    const { tracks, until } = held, bin = this.view.model.span / (until.length - 1);
    if (!tracks.length || step >= bin) fillFromBins(until, from / bin, step / bin, shares);
    else {
      shares.fill(0);
      for (const track of tracks) addShares(track, from, step, shares);
      for (let x = 0; x < shares.length; x++) shares[x] = Math.min(1, shares[x] / tracks.length);
    }
    return true;
  }

  /** Arrays for the columns of a picture; the next picture has them too, so that frames leave nothing to collect. */
  room(wide: number): { shares: Float64Array; ends: Int32Array } {
    if (this.columns.ends.length < wide) {
      this.columns = { shares: new Float64Array(wide), ends: new Int32Array(wide) };
    }
    return this.columns;
  }

  /** Whether a search has found anything of processes between two times. */
  isFound(processes: number[], from: number, to: number): boolean {
    const { model, tracks, search } = this.view;
    return !search || model.lanes.some((lane) => processes.includes(lane.process ?? -1) && lane.tracks.some((spec) => {
      const track = tracks.get(spec.track), [first, after] = track?.visible(from, to) ?? [0, 0];
      return track !== undefined && first < after && search.between(track, first, after);
    }));
  }

  /** What a group did at a place of the axis, and what is known of it. */
  describe({ spec, processes }: Lane, time: number, step: number): Description {
    const all = this.view.model.header.processes ?? [], own = all[processes[0]];
    const rows: Description["rows"] = [], share = new Float64Array(1);
    KINDS.forEach(([, color, name], kind) => {
      if (this.fill(processes, kind, time - step, 2 * step, share)) rows.push([name, percent(share[0]), color]);
    });
    if (processes.length > 1) return { title: spec.label, kind: spec.note, rows };
    rows.push(...own.about);
    // Processes of one machine share its clock.
    const isApart = all.some(({ host }) => host !== own.host);
    if (own.bound !== null) rows.push(["clock", `its times can be off by ±${duration(own.bound)}`]);
    else if (isApart) rows.push(["clock", "not known how far it is off"]);
    return { title: own.label, kind: "process", rows };
  }
}

/** Draw columns of a group: bars as high as its processes were busy, the GPU's in the lower half. */
export function busyColumns(view: View, processes: number[], image: Raster, wide: number, high: number) {
  const { from, to, shows: { t0, step } } = image, middle = view.model.header.tables.gpu.rows ? high >> 1 : high;
  const isSlow = view.search !== null || step < view.model.span / BINS;
  const size = isSlow && processes.length > MANY ? COARSE : 1;
  const isLost = view.search && lostColumns(view, processes, image, wide, size);
  const { shares: room, ends } = view.busy.room(wide), shares = room.subarray(0, Math.ceil((to - from) / size));
  KINDS.forEach(([, hex, , isGpu], kind) => {
    if (!view.busy.fill(processes, kind, t0 + from * step, step * size, shares)) return;
    const color = view.theme.color(hex), [top, bottom] = isGpu ? [middle + 1, high] : [0, middle];
    // Compiles lie over what is there already.
    const [faint, ink] = [kind === 1 ? null : color.faintPixel, color.pixel];
    paintBars(image, wide, top, bottom, faint, ink, shares, ends, size, isLost);
  });
}

/** Which columns the search has found nothing in. */
function lostColumns(
  view: View, processes: number[], { from, to, shows: { t0, step } }: Raster, wide: number, size: number,
) {
  const isLost = new Uint8Array(wide);
  for (let x = from; x < to; x += size) {
    const begin = t0 + x * step;
    if (!view.busy.isFound(processes, begin, begin + size * step)) isLost.fill(1, x, x + size);
  }
  return isLost;
}

/** Bars between two rows of pixels, faint above; those that the search has not found are all faint. */
function paintBars(
  { pixels, from, to }: Raster, wide: number, top: number, bottom: number, faint: number | null, ink: number,
  shares: Float64Array, ends: Int32Array, size: number, isLost: Uint8Array | null,
) {
  const runs: number[] = [];
  let least = bottom, most = top, isIn = false;
  for (let column = 0, x = from; column < shares.length; column++, x += size) {
    const share = shares[column], has = share > 0;
    if (has !== isIn) { runs.push(x); isIn = has; }
    if (!has) continue;
    const tall = isLost?.[x] ? 0 : Math.max(2, Math.round(share * (bottom - top) - 0.01)), at = bottom - tall;
    if (at < least) least = at;
    if (at > most) most = at;
    if (size === 1) ends[x] = at; else ends.fill(at, x, x + size);
  }
  if (isIn) runs.push(to);
  for (let y = top; y < bottom; y++) {
    const row = y * wide;
    for (let run = 0; run < runs.length; run += 2) {
      const begin = runs[run], end = Math.min(to, runs[run + 1]);
      if (y < least) {
        if (faint !== null) pixels.fill(faint, row + begin, row + end);
      } else if (y >= most) pixels.fill(ink, row + begin, row + end);
      else if (faint === null) {
        for (let x = begin; x < end; x++) if (y >= ends[x]) pixels[row + x] = ink;
      } else {
        // No branch: where bars end differs from column to column, which a processor cannot foresee.
        const other = faint ^ ink;
        for (let x = begin; x < end; x++) pixels[row + x] = faint ^ (other & ((ends[x] - y - 1) >> 31));
      }
    }
  }
}

/** Events of several tracks of a table as one track: they are in order of their rows. */
function together(tracks: Track[]): Track {
  const ids = new Int32Array(tracks.reduce((sum, track) => sum + track.n, 0)), [first] = tracks;
  let at = 0;
  for (const track of tracks) for (let i = 0; i < track.n; i++) ids[at++] = track.id(i);
  ids.sort();
  return new Track(first.model, first.spec, ids, first.table.timesOf(ids));
}

/** What several are on average; null for none. */
function averaged(all: Held[]): Held | null {
  if (!all.length) return null;
  const bins = new Float64Array(all[0].until.length - 1), share = 1 / (FULL * all.length);
  for (const { until } of all) for (let at = 0; at < bins.length; at++) bins[at] += (until[at + 1] - until[at]) * share;
  return { tracks: all.flatMap(({ tracks }) => tracks), until: summed(bins) };
}

/** How much the bins count before each of them, and all together; one in which anything is counts at least 1. */
function summed(bins: Float64Array): Int32Array {
  const until = new Int32Array(bins.length + 1);
  for (let at = 0, sum = 0; at < bins.length; at++) {
    sum += bins[at];
    until[at + 1] = Math.max(until[at] + (bins[at] > 0 ? 1 : 0), Math.round(sum * FULL));
  }
  return until;
}

/** Fill in the shares of columns that begin at `from` and last `step`, both in bins. */
function fillFromBins(until: Int32Array, from: number, step: number, shares: Float64Array) {
  const last = until.length - 1, scale = 1 / (step * FULL);
  const before = (column: number) => {
    const place = from + column * step, at = place | 0;
    return place <= 0 ? 0 : at >= last ? until[last] : until[at] + (place - at) * (until[at + 1] - until[at]);
  };
  for (let x = 0, was = before(0); x < shares.length; x++) {
    const now = before(x + 1);
    shares[x] = Math.min(1, (now - was) * scale);
    was = now;
  }
}
