// Search by name: which names match is decided once a name, which events match follows from their names' numbers.

import type { Model } from "./model";
import { above } from "./axis";
import type { Track } from "./tracks";
import type { TableName } from "./wire";

/** An event of a track. */
export interface EventPlace {
  track: Track;
  index: number;
}

/** Start, number of the track, number in it. */
type Order = [start: number, track: number, index: number];

const less = (a: Order, b: Order) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];

export class Search {
  readonly count: number;
  /** By track, how many of the events before each one match. */
  private readonly prefix = new Map<Track, Int32Array>();

  /** With `lines`, events that these lines of code made; else those whose name has the text. */
  constructor(model: Model, tracks: Map<number, Track>, text: string, lines: number[]) {
    const sought = text.toLowerCase();
    for (const track of tracks.values()) {
      const sums = new Int32Array(track.n + 1), { table } = track.spec;
      this.prefix.set(track, sums);
      if (lines.length && !model.table(table).has("line_id")) continue;
      const { codes, names } = lines.length ? { codes: model.table(table).col("line_id"), names: model.facts.lines }
        : namesOf(model, table);
      const isWanted = names.map((name, at) => (
        lines.length ? lines.includes(at) : String(name ?? "").toLowerCase().includes(sought)));
      for (let i = 0; i < track.n; i++) {
        sums[i + 1] = sums[i] + (isWanted[codes[track.id(i)]] ? 1 : 0);
      }
    }
    this.count = [...this.prefix.values()].reduce((sum, sums) => sum + sums[sums.length - 1], 0);
  }

  private sumsOf(track: Track): Int32Array { return this.prefix.get(track) ?? new Int32Array(track.n + 1); }

  has(track: Track, i: number): boolean {
    const sums = this.sumsOf(track);
    return sums[i + 1] > sums[i];
  }

  between(track: Track, from: number, to: number) {
    const sums = this.sumsOf(track);
    return sums[to] > sums[from];
  }

  /** The first matches by start, or the longest ones; at most `most`. */
  list(isByDuration: boolean, most: number): EventPlace[] {
    const found: EventPlace[] = [];
    const key = ({ track, index }: EventPlace) => (
      isByDuration ? track.start[index] - track.end[index] : track.start[index]);
    const keep = () => { found.sort((a, b) => key(a) - key(b)).splice(most); };
    for (const [track, sums] of this.prefix) {
      for (let index = 0; index < track.n; index++) {
        if (sums[index + 1] === sums[index]) continue;
        const full = found.length >= most && key({ track, index }) >= key(found[most - 1]);
        if (full) { if (isByDuration) continue; break; } // tracks are in order of their starts
        found.push({ track, index });
        if (found.length >= 2 * most) keep();
      }
      keep();
    }
    return found;
  }

  /** The next match by start (then by track) after an event, or before it; from the first on where there is none. */
  step(at: EventPlace | null, forward: boolean): EventPlace | null {
    let best: EventPlace | null = null;
    const order = [...this.prefix.keys()];
    const place = ({ track, index }: EventPlace): Order => [track.start[index], order.indexOf(track), index];
    const here: Order = at ? place(at) : forward ? [-Infinity, -1, -1] : [Infinity, order.length, 0];
    for (const track of order) {
      const index = nearest(this.sumsOf(track), track, order.indexOf(track), here, forward);
      if (index < 0) continue;
      const event = { track, index };
      if (!best || (less(place(event), place(best)) < 0) === forward) best = event;
    }
    return best ?? (at ? this.step(null, forward) : null);
  }
}

/** The match of a track that is next to a place, in one direction. */
function nearest(sums: Int32Array, track: Track, number: number, here: Order, forward: boolean): number {
  let i = above(track.start, here[0]) - (forward ? 0 : 1);
  if (forward) while (i > 0 && track.start[i - 1] === here[0]) i -= 1;
  const isPast = (at: number) => (less([track.start[at], number, at], here) > 0) === forward
    && less([track.start[at], number, at], here) !== 0;
  while (i >= 0 && i < track.n && !isPast(i)) i += forward ? 1 : -1;
  if (i < 0 || i >= track.n) return -1;
  if (forward) {
    const index = above(sums, sums[i]) - 1;
    return index < track.n && sums[track.n] > sums[i] ? index : -1;
  }
  if (!sums[i + 1]) return -1;
  // The last index at which the count is still one lower.
  return above(sums, sums[i + 1] - 1) - 1;
}

function namesOf(model: Model, table: TableName): { codes: Float64Array; names: string[] } {
  const held = model.table(table), { facts, words } = model;
  if (table === "launches") return { codes: held.col("dispatcher_id"), names: facts.kernels.map((each) => each.name) };
  if (table === "compiles") return { codes: held.col("dispatcher_id"), names: facts.kernels.map((each) => each.name) };
  if (table === "cells") return { codes: held.col("id"), names: facts.cells.map((each) => each.label) };
  return { codes: held.col("name"), names: words[`${table}.name`] };
}
