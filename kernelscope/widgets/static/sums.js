// What a stretch of time sums up to. Times are cut at its ends; counts and bytes are of what begins in it.

import { PHASES, above } from "./levels.js";

const MOST = 8;

/** Sums between two times, in nanoseconds since the start. */
export function sumsOf(view, from, to) {
  const { model } = view;
  return {
    from, to, span: to - from,
    ...hostSums(view, from, to),
    ...gpuSums(model, from, to),
  };
}

function hostSums(view, from, to) {
  const { model } = view, phases = Object.fromEntries(PHASES.map((name) => [name, 0]));
  const byKernel = new Map(), spent = new Float64Array(6), table = model.table("launches");
  let launches = 0;
  for (const track of view.tracks.values()) {
    if (!track.segments) continue;
    const [first, after] = track.visible(from, to);
    for (let i = first; i < after; i++) {
      const id = track.id(i), begins = track.start[i] >= from && track.start[i] < to;
      spent.fill(0);
      addSegments(track, i, from, to, spent);
      const parent = table.at("parent_launch_id", id), own = spent.reduce((sum, value) => sum + value, 0);
      PHASES.forEach((name, phase) => { phases[name] += spent[phase]; });
      if (parent >= 0) takeFromParent(view, parent, Math.max(from, track.start[i]), Math.min(to, track.end[i]), phases);
      if (begins) launches += 1;
      if (begins || own > 0) {
        const name = table.at("dispatcher_id", id), held = byKernel.get(name) ?? { launches: 0, host: 0, gpu: 0, kernels: 0 };
        held.launches += begins ? 1 : 0;
        held.host += own;
        byKernel.set(name, held);
      }
    }
  }
  const top = [...byKernel].map(([id, sums]) => ({ name: model.facts.kernels[id].name, ...sums }))
    .sort((a, b) => b.host - a.host || b.launches - a.launches).slice(0, MOST);
  return { launches, phases, host: Object.values(phases).reduce((sum, value) => sum + value, 0), byLaunch: top };
}

function addSegments(track, i, from, to, out) {
  track.segments(i);
  for (let at = 0; at < 6; at++) {
    const lasting = Math.min(to, track.times[at + 1]) - Math.max(from, track.times[at]);
    if (lasting > 0) out[track.kinds[at]] += lasting;
  }
}

/** The time of a launch inside another one counts once: it is taken out of the other's phases. */
function takeFromParent(view, parent, from, to, phases) {
  const found = view.find("launches", parent);
  if (!found || to <= from) return;
  const inside = new Float64Array(6);
  addSegments(found.track, found.index, from, to, inside);
  PHASES.forEach((name, phase) => { phases[name] -= inside[phase]; });
}

function gpuSums(model, from, to) {
  const table = model.table("gpu"), start = table.col("start"), lasted = table.col("dur");
  const kind = table.col("kind"), name = table.col("name"), size = table.col("size_bytes"), device = table.col("device_id");
  const words = model.words["gpu.kind"], reach = new Map(), byName = new Map();
  const sums = { kernels: 0, kernelTime: 0, copies: 0, copyTime: 0, copyBytes: 0, busy: 0, other: 0 };
  const stop = above(start, to);
  for (let i = 0; i < stop; i++) {
    const begin = Math.max(from, start[i]), end = Math.min(to, start[i] + Math.max(0, lasted[i]));
    const begins = start[i] >= from && start[i] < to, spent = Math.max(0, end - begin);
    if (!begins && !spent) continue;
    const covered = reach.get(device[i]) ?? -Infinity;
    sums.busy += Math.max(0, end - Math.max(begin, covered));
    if (end > covered) reach.set(device[i], end);
    if (words[kind[i]] === "kernel") {
      const held = byName.get(name[i]) ?? { kernels: 0, gpu: 0 };
      held.kernels += begins ? 1 : 0;
      held.gpu += spent;
      byName.set(name[i], held);
      sums.kernels += begins ? 1 : 0;
      sums.kernelTime += spent;
    } else {
      sums.copies += begins ? 1 : 0;
      sums.copyTime += spent;
      if (begins && size[i] > 0) sums.copyBytes += size[i];
    }
  }
  const byKernel = [...byName].map(([code, held]) => ({ name: model.words["gpu.name"][code], code, ...held }))
    .sort((a, b) => b.gpu - a.gpu || b.kernels - a.kernels).slice(0, MOST);
  return { ...sums, devices: reach.size, byKernel };
}
