// What a stretch of time sums up to. Times are cut at its ends; counts and bytes are of what begins in it.

import { PHASES } from "../shared/generated";
import type { Model } from "./model";
import type { EventPlace } from "./search";
import { above } from "./axis";
import { LaunchTrack, SEGMENTS, type Track } from "./tracks";
import type { TableName } from "./wire";

const MOST = 8;

interface HostSums {
  launches: number;
  /** The host's time in launches, and what of it each phase took. */
  host: number;
  phases: Record<string, number>;
  byLaunch: { name: string; launches: number; host: number }[];
}

interface GpuSums {
  /** Time in which a GPU was busy, over all of so many. */
  busy: number;
  devices: number;
  copies: number;
  copyTime: number;
  copyBytes: number;
  kernels: number;
  kernelTime: number;
  byKernel: { name: string; kernels: number; gpu: number }[];
}

export interface Sums extends HostSums, GpuSums {
  from: number;
  to: number;
  span: number;
}

/** What is summed up: a recording, its tracks by number, and where an event is. */
export interface Summed {
  readonly model: Model;
  readonly tracks: Map<number, Track>;
  find(table: TableName, row: number): EventPlace | null;
}

/** Sums between two places of the axis; their times are real ones, in nanoseconds since the start. */
export function sumsOf(view: Summed, from: number, to: number): Sums {
  const { model } = view, begin = model.axis.real(from), end = model.axis.real(to);
  return {
    from: begin, to: end, span: end - begin,
    ...hostSums(view, from, to),
    ...gpuSums(model, begin, end),
  };
}

function hostSums(view: Summed, from: number, to: number): HostSums {
  const { model } = view, table = model.table("launches"), kernels = model.facts.kernels, count = PHASES.length;
  const spent = new Float64Array(count), before = new Float64Array(count), inside = new Float64Array(count);
  const counts = new Float64Array(kernels.length), host = new Float64Array(kernels.length);
  const kernel = table.col("dispatcher_id"), parent = table.col("parent_launch_id"), capture = table.col("capture");
  for (const track of view.tracks.values()) {
    if (!(track instanceof LaunchTrack)) continue;
    track.phasesUntil(from, before);
    track.phasesUntil(to, inside);
    for (let phase = 0; phase < count; phase++) spent[phase] += inside[phase] - before[phase];
    const [first, after] = track.visible(from, to), { start, end, ids } = track;
    for (let i = first; i < after; i++) {
      const id = ids ? ids[i] : i, isCaptured = capture[id] >= 0;
      const begin = Math.max(from, start[i]), finish = Math.min(to, end[i]);
      // What was captured into a graph did not run.
      if (isCaptured) takeOut(track, i, begin, finish, spent);
      else {
        if (start[i] >= from && start[i] < to) counts[kernel[id]] += 1;
        host[kernel[id]] += Math.max(0, finish - begin);
      }
      if (parent[id] >= 0 && capture[parent[id]] < 0) takeFromParent(view, parent[id], begin, finish, spent, host);
    }
  }
  const byLaunch = kernels.map(({ name }, id) => ({ name, launches: counts[id], host: host[id] }))
    .filter((each) => each.launches || each.host).sort((a, b) => b.host - a.host || b.launches - a.launches);
  return {
    launches: counts.reduce((sum, value) => sum + value, 0), host: spent.reduce((sum, value) => sum + value, 0),
    phases: Object.fromEntries(PHASES.map((name, phase) => [name, spent[phase]])), byLaunch: byLaunch.slice(0, MOST),
  };
}

/** The time of a launch inside another one counts once: it is taken out of the other's phases. */
function takeFromParent(
  view: Summed, parent: number, from: number, to: number, spent: Float64Array, host: Float64Array,
) {
  const found = view.find("launches", parent);
  if (!(found?.track instanceof LaunchTrack) || to <= from) return;
  host[found.track.table.at("dispatcher_id", parent)] -= takeOut(found.track, found.index, from, to, spent);
}

/** Take the time of a launch between two times out of the phases, and return how much that is. */
function takeOut(track: LaunchTrack, index: number, from: number, to: number, spent: Float64Array) {
  let taken = 0;
  track.segments(index);
  for (let at = 0; at < SEGMENTS; at++) {
    const shared = Math.min(to, track.times[at + 1]) - Math.max(from, track.times[at]);
    if (shared <= 0) continue;
    spent[track.kinds[at]] -= shared;
    taken += shared;
  }
  return taken;
}

function gpuSums(model: Model, from: number, to: number): GpuSums {
  const table = model.table("gpu"), names = model.words["gpu.name"], kernel = model.words["gpu.kind"].indexOf("kernel");
  const [start, lasted, kind, name, size, device] = ["start", "dur", "kind", "name", "size_bytes", "device_id"]
    .map((column) => table.col(column));
  const reach = new Float64Array(model.facts.devices.length + 1).fill(-Infinity), stop = above(start, to);
  const kernels = new Float64Array(names.length), gpu = new Float64Array(names.length);
  let busy = 0, copies = 0, copyTime = 0, copyBytes = 0;
  for (let i = 0; i < stop; i++) {
    const finish = start[i] + Math.max(0, lasted[i]);
    const begin = Math.max(from, start[i]), end = Math.min(to, finish), spent = Math.max(0, end - begin);
    const begins = start[i] >= from && start[i] < to;
    if (!begins && !spent) continue;
    const on = device[i] + 1;
    busy += Math.max(0, end - Math.max(begin, reach[on]));
    reach[on] = Math.max(reach[on], end);
    if (kind[i] === kernel) {
      if (begins) kernels[name[i]] += 1;
      gpu[name[i]] += spent;
    } else {
      copyTime += spent;
      if (begins) { copies += 1; copyBytes += Math.max(0, size[i]); }
    }
  }
  const byKernel = names.map((each, code) => ({ name: each, kernels: kernels[code], gpu: gpu[code] }))
    .filter((each) => each.kernels || each.gpu).sort((a, b) => b.gpu - a.gpu || b.kernels - a.kernels);
  return {
    busy, copies, copyTime, copyBytes, devices: reach.filter((each) => each > -Infinity).length,
    kernels: kernels.reduce((sum, value) => sum + value, 0), kernelTime: gpu.reduce((sum, value) => sum + value, 0),
    byKernel: byKernel.slice(0, MOST),
  };
}
