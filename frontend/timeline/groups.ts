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
/** Columns of machines of more processes than `MANY` are this many pixels wide. */
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

/** When a process was busy: its events as one track, and how long it was busy before each bin's end. */
interface Held {
  track: Track | null;
  until: Float64Array;
}

/** How busy the processes were. */
export class Busy {
  private readonly held = new Map<string, Held | null>();

  constructor(private readonly view: View) {}

  private of(process: number, kind: number): Held | null {
    const key = `${process} ${kind}`;
    let found = this.held.get(key);
    if (found === undefined) {
      found = this.view.overview ? this.ofOverview(process, kind) : this.ofEvents(process, kind);
      this.held.set(key, found);
    }
    return found;
  }

  private ofOverview(process: number, kind: number): Held | null {
    const held = this.view.overview?.[`p${process}`]?.find(([color]) => color === KINDS[kind][1]);
    return held ? { track: null, until: summed(Float64Array.from(atob(held[1]), (each) => each.charCodeAt(0) / 255)) }
      : null;
  }

  private ofEvents(process: number, kind: number): Held | null {
    const { model, tracks } = this.view, [table] = KINDS[kind];
    const own = model.lanes.filter((lane) => lane.process === process).flatMap((lane) => lane.tracks)
      .flatMap((spec) => (spec.table === table ? tracks.get(spec.track) ?? [] : []));
    if (!own.length) return null;
    const track = own.length > 1 ? together(own) : own[0], bins = new Float64Array(BINS);
    addShares(track, 0, model.span / BINS, bins);
    return { track, until: summed(bins) };
  }

  /** The share of each column in which processes were busy, on average of those that have such events; null for none. */
  shares(processes: number[], kind: number, from: number, step: number, columns: number): Float64Array | null {
    const { span } = this.view.model, shares = new Float64Array(columns);
    let known = 0;
    for (const process of processes) {
      const held = this.of(process, kind);
      if (!held) continue;
      known += 1;
      const { track, until } = held, bin = span / (until.length - 1);
      if (track && step < bin) addShares(track, from, step, shares);
      else addBins(until, from / bin, step / bin, shares);
    }
    for (let x = 0; x < columns; x++) shares[x] = Math.min(1, shares[x] / known);
    return known ? shares : null;
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
    const rows: Description["rows"] = [];
    KINDS.forEach(([, color, name], kind) => {
      const share = this.shares(processes, kind, time - step, 2 * step, 1)?.[0];
      if (share !== undefined) rows.push([name, percent(share), color]);
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
  const size = processes.length > MANY ? COARSE : 1, isLost = new Uint8Array(wide);
  if (view.search) {
    for (let x = from; x < to; x += size) {
      const begin = t0 + x * step;
      if (!view.busy.isFound(processes, begin, begin + size * step)) isLost.fill(1, x, x + size);
    }
  }
  KINDS.forEach(([, hex, , isGpu], kind) => {
    const shares = view.busy.shares(processes, kind, t0 + from * step, step * size, Math.ceil((to - from) / size));
    const color = view.theme.color(hex), [top, bottom] = isGpu ? [middle + 1, high] : [0, middle];
    // Compiles lie over what is there already.
    const [faint, ink] = [kind === 1 ? null : color.faintPixel, color.pixel];
    if (shares) paintBars(image, wide, top, bottom, faint, ink, shares, size, view.search ? isLost : null);
  });
}

/** Bars between two rows of pixels, faint above; those that the search has not found are all faint. */
function paintBars(
  { pixels, from, to }: Raster, wide: number, top: number, bottom: number, faint: number | null, ink: number,
  shares: Float64Array, size: number, isLost: Uint8Array | null,
) {
  const full = new Int16Array(wide), runs: number[] = [];
  let least = bottom, most = top, isIn = false;
  for (let column = 0, x = from; column < shares.length; column++, x += size) {
    const share = shares[column], has = share > 0;
    if (has !== isIn) { runs.push(x); isIn = has; }
    if (!has) continue;
    const tall = Math.max(2, Math.round(share * (bottom - top) - 0.01)), at = bottom - tall;
    if (at < least) least = at;
    if (at > most) most = at;
    if (size === 1) full[x] = at; else full.fill(at, x, x + size);
  }
  if (isIn) runs.push(to);
  for (let y = top; y < bottom; y++) {
    const row = y * wide;
    for (let run = 0; run < runs.length; run += 2) {
      const begin = runs[run], end = Math.min(to, runs[run + 1]);
      if (y < least) {
        if (faint !== null) pixels.fill(faint, row + begin, row + end);
      } else if (y >= most && !isLost) pixels.fill(ink, row + begin, row + end);
      else {
        for (let x = begin; x < end; x++) {
          if (y >= full[x] && !isLost?.[x]) pixels[row + x] = ink;
          else if (faint !== null) pixels[row + x] = faint;
        }
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

/** How much of bins is before each of them, and of all together. */
function summed(bins: Float64Array): Float64Array {
  const until = new Float64Array(bins.length + 1);
  for (let at = 0; at < bins.length; at++) until[at + 1] = until[at] + bins[at];
  return until;
}

/** Add the shares of columns that begin at `from` and last `step`, both in bins. */
function addBins(until: Float64Array, from: number, step: number, shares: Float64Array) {
  const last = until.length - 1, share = 1 / step;
  let was = 0;
  for (let x = -1; x < shares.length; x++) {
    const place = from + (x + 1) * step, at = place | 0;
    const now = place <= 0 ? 0 : place >= last ? until[last] : until[at] + (place - at) * (until[at + 1] - until[at]);
    if (x >= 0) shares[x] += (now - was) * share;
    was = now;
  }
}
