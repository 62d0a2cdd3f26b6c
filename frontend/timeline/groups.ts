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

/** The tracks of each process by kind: of several, one in which their events are together. */
export class Busy {
  private readonly held = new Map<string, Track | null>();

  constructor(private readonly view: View) {}

  private track(process: number, kind: number): Track | null {
    const key = `${process} ${kind}`, { model, tracks } = this.view, [table] = KINDS[kind];
    let found = this.held.get(key);
    if (found === undefined) {
      const own = model.lanes.filter((lane) => lane.process === process).flatMap((lane) => lane.tracks)
        .flatMap((spec) => (spec.table === table ? tracks.get(spec.track) ?? [] : []));
      found = own.length > 1 ? together(own) : own[0] ?? null;
      this.held.set(key, found);
    }
    return found;
  }

  /** The share of each column in which processes were busy, on average of those that have such events; null for none. */
  shares(processes: number[], kind: number, from: number, step: number, columns: number): Float64Array | null {
    const { overview, model } = this.view, shares = new Float64Array(columns);
    let known = 0;
    for (const process of processes) {
      const track = overview ? null : this.track(process, kind);
      const held = overview?.[`p${process}`]?.find(([color]) => color === KINDS[kind][1]);
      if (track) addShares(track, from, step, shares);
      else if (held) addBins(held[1], from / model.span, step / model.span, shares);
      else continue;
      known += 1;
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
    const { header } = this.view.model, own = header.processes?.[processes[0]];
    const rows: Description["rows"] = [];
    KINDS.forEach(([, color, name], kind) => {
      const share = this.shares(processes, kind, time - step, 2 * step, 1)?.[0];
      if (share !== undefined) rows.push([name, percent(share), color]);
    });
    if (processes.length > 1 || !own) return { title: spec.label, kind: spec.note, rows };
    const clock = own.bound === null ? "not known how far it is off" : `its times can be off by ±${duration(own.bound)}`;
    return { title: own.label, kind: "process", rows: [...rows, ...own.about, ["clock", clock]] };
  }
}

/** Draw columns of a group: bars as high as its processes were busy, the GPU's in the lower half. */
export function busyColumns(view: View, processes: number[], image: Raster, wide: number, high: number) {
  const { pixels, from, to, shows: { t0, step } } = image, hasGpu = view.model.header.tables.gpu.rows > 0;
  const size = processes.length > MANY ? COARSE : 1, columns = Math.ceil((to - from) / size), left = t0 + from * step;
  const isFaint: boolean[] = [];
  if (view.search) {
    for (let x = 0; x < columns; x++) {
      const begin = left + x * size * step;
      isFaint.push(!view.busy.isFound(processes, begin, begin + size * step));
    }
  }
  KINDS.forEach(([, hex, , isGpu], kind) => {
    const shares = view.busy.shares(processes, kind, left, step * size, columns);
    if (!shares) return;
    const color = view.theme.color(hex), middle = hasGpu ? high >> 1 : high;
    const top = isGpu ? middle + 1 : 0, bottom = isGpu ? high : middle;
    for (let column = 0; column < columns; column++) {
      if (shares[column] <= 0) continue;
      const full = bottom - Math.max(2, Math.round(shares[column] * (bottom - top) - 0.01));
      const ink = isFaint[column] ? color.faintPixel : color.pixel, begin = from + column * size;
      for (let x = begin; x < Math.min(to, begin + size); x++) {
        // Compiles lie over what is there already.
        for (let y = kind === 1 ? full : top; y < bottom; y++) pixels[y * wide + x] = y < full ? color.faintPixel : ink;
      }
    }
  });
}

/** Events of several tracks of a table as one track: they are in order of their rows. */
function together(tracks: Track[]): Track {
  const ids = new Int32Array(tracks.reduce((sum, track) => sum + track.n, 0)), [first] = tracks;
  let at = 0;
  for (const track of tracks) for (let i = 0; i < track.n; i++) ids[at++] = track.id(i);
  ids.sort();
  return new Track(first.model, first.spec, ids, first.table.timesOf(ids));
}

/** Add shares of an overview's columns; `from` and `step` are shares of the whole time. */
function addBins(packed: string, from: number, step: number, shares: Float64Array) {
  const bins = Uint8Array.from(atob(packed), (each) => each.charCodeAt(0));
  for (let x = 0; x < shares.length; x++) shares[x] += (bins[Math.floor((from + (x + 0.5) * step) * bins.length)] ?? 0) / 255;
}
