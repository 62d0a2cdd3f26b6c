// Search by name: which names match is decided once a name, which events match follows from their names' numbers.

import { above } from "./levels.js";

export class Search {
  constructor(model, tracks, text) {
    this.text = text;
    this.model = model;
    this.wanted = new Map();
    this.prefix = new Map();
    this.found = [];
    const sought = text.toLowerCase();
    for (const track of tracks.values()) {
      const { codes, names } = namesOf(model, track.spec.table);
      const isWanted = names.map((name) => String(name ?? "").toLowerCase().includes(sought));
      const sums = new Int32Array(track.n + 1);
      for (let i = 0; i < track.n; i++) {
        const code = codes ? codes[track.id(i)] : track.id(i);
        sums[i + 1] = sums[i] + (isWanted[code] ? 1 : 0);
      }
      this.prefix.set(track, sums);
    }
    this.count = [...this.prefix.values()].reduce((sum, sums) => sum + sums[sums.length - 1], 0);
  }

  has(track, i) {
    const sums = this.prefix.get(track);
    return sums[i + 1] > sums[i];
  }

  between(track, from, to) {
    const sums = this.prefix.get(track);
    return sums[to] > sums[from];
  }

  /** The next match by start (then by track) after an event, or before it; from the first on where there is none. */
  step(at, forward) {
    let best = null;
    const order = [...this.prefix.keys()];
    const place = (event) => [event.track.start[event.index], order.indexOf(event.track), event.index];
    const less = (a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
    const here = at ? place(at) : forward ? [-Infinity, -1, -1] : [Infinity, order.length, 0];
    for (const track of order) {
      const index = nearest(this.prefix.get(track), track, order.indexOf(track), here, forward, less);
      if (index < 0) continue;
      const event = { track, index };
      if (!best || (less(place(event), place(best)) < 0) === forward) best = event;
    }
    return best ?? (at ? this.step(null, forward) : null);
  }
}

/** The match of a track that is next to a place, in one direction. */
function nearest(sums, track, number, here, forward, less) {
  let i = above(track.start, here[0]) - (forward ? 0 : 1);
  if (forward) while (i > 0 && track.start[i - 1] === here[0]) i -= 1;
  const isPast = (at) => (less([track.start[at], number, at], here) > 0) === forward
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

function namesOf(model, table) {
  const held = model.table(table), { facts, words } = model;
  if (table === "launches") return { codes: held.col("dispatcher_id"), names: facts.kernels.map((each) => each.name) };
  if (table === "compiles") return { codes: held.col("dispatcher_id"), names: facts.kernels.map((each) => each.name) };
  if (table === "cells") return { codes: held.col("id"), names: facts.cells.map((each) => each.label) };
  return { codes: held.col("name"), names: words[`${table}.name`] };
}
