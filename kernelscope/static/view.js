// What is shown: the stretch of time, the scroll position, what is hovered, pinned, selected and searched for.

import { colorsOf } from "./colors.js";
import { Layout } from "./layout.js";
import { Search } from "./search.js";
import { above, makeTracks } from "./levels.js";
import { sumsOf } from "./sums.js";

/** The least stretch of time that fills the width, in nanoseconds. */
const LEAST_SPAN = 10;
const MARGIN = 0.012;

export class View {
  constructor(model, theme) {
    this.model = model;
    this.theme = theme;
    this.tracks = makeTracks(model);
    this.layout = new Layout(model, this.tracks);
    this.width = 600;
    this.height = 200;
    this.dpr = 1;
    this.scroll = 0;
    this.hover = this.pinned = this.selection = this.box = this.search = this.pointer = null;
    this.lengths = new Map();
    this.rasters = new Map();
    this.places = new Map();
    this.fit();
  }

  /** The pixel of a time; exact, for both are differences of whole nanoseconds. */
  x(time) { return ((time - this.t0) / (this.t1 - this.t0)) * this.width; }

  time(x) { return this.t0 + (x / this.width) * (this.t1 - this.t0); }

  limits() {
    const span = Math.max(this.model.span, LEAST_SPAN);
    return [-span * MARGIN, span * (1 + MARGIN)];
  }

  fit() { [this.t0, this.t1] = this.limits(); }

  /** Show a stretch of time; it is kept within the recording. */
  show(t0, t1) {
    const [least, most] = this.limits();
    const span = Math.min(Math.max(t1 - t0, LEAST_SPAN), most - least);
    const middle = (t0 + t1) / 2;
    this.t0 = Math.min(Math.max(middle - span / 2, least), most - span);
    this.t1 = this.t0 + span;
  }

  zoom(factor, x = this.width / 2) {
    const at = this.time(x), span = Math.max(LEAST_SPAN, (this.t1 - this.t0) * factor), share = x / this.width;
    const [least, most] = this.limits();
    if (span >= most - least) { this.fit(); return; }
    this.show(at - span * share, at + span * (1 - share));
  }

  pan(pixels) {
    const by = (pixels / this.width) * (this.t1 - this.t0);
    this.show(this.t0 + by, this.t1 + by);
  }

  /** Times of the ruler's ticks, about a hundred pixels apart, and their distance. */
  ticks() {
    const wanted = ((this.t1 - this.t0) / this.width) * 110, scale = 10 ** Math.floor(Math.log10(wanted));
    const step = Math.max(1, [1, 2, 5, 10].map((digit) => digit * scale).find((each) => each >= wanted));
    const marks = [];
    for (let at = Math.ceil(this.t0 / step); at * step <= this.t1; at++) marks.push(at * step);
    return { step, marks };
  }

  isFound(track, i) { return !this.search || this.search.has(track, i); }

  seek(text) { this.search = text ? new Search(this.model, this.tracks, text) : null; }

  event(track, index) {
    return { track, index, id: track.id(index), table: track.spec.table };
  }

  /** An event by its table and row; null where it is not drawn. */
  find(table, row) {
    const held = this.model.table(table);
    if (row < 0 || row >= held.rows) return null;
    const track = this.tracks.get(held.at("track", row));
    if (!track) return null;
    if (!track.ids) return this.event(track, row);
    const index = above(track.ids, row) - 1;
    return track.ids[index] === row ? this.event(track, index) : null;
  }

  /** The event at a place of the canvas, or near it; the shortest where several are. */
  hit(x, y) {
    const row = this.layout.rowAt(y + this.scroll);
    if (!row) return null;
    const { track } = row, slack = ((this.t1 - this.t0) / this.width) * 3, at = this.time(x);
    const [from, to] = track.visible(at - slack, at + slack);
    if (from >= to) return null;
    if (to - from > 200) {
      const index = track.longest(from, to);
      return index < 0 ? null : this.event(track, index);
    }
    let best = -1, least = Infinity;
    for (let i = from; i < to; i++) {
      const away = Math.max(track.start[i] - at, at - track.end[i], 0);
      const cost = away * 1e6 + (track.end[i] - track.start[i]);
      if (away <= slack && cost < least) { least = cost; best = i; }
    }
    return best < 0 ? null : this.event(track, best);
  }

  /** Show an event: scroll and pan to it, and zoom where it would be invisible or overflow. */
  reveal(event) {
    const row = this.layout.rowOf(event.track);
    if (row?.lane.isFolded) { this.layout.fold(row.lane, false); this.reveal(event); return; }
    const start = event.track.start[event.index], end = event.track.end[event.index];
    const span = this.t1 - this.t0, lasting = Math.max(end - start, 1), pixels = (lasting / span) * this.width;
    if (pixels < 4 || lasting > span * 0.9) {
      const shown = lasting * (pixels < 4 ? 12 : 1.6), middle = (start + end) / 2;
      this.show(middle - shown / 2, middle + shown / 2);
    } else if (start < this.t0 || end > this.t1) {
      this.show((start + end - span) / 2, (start + end + span) / 2);
    }
    if (!row) return;
    if (row.y < this.scroll) this.scroll = Math.max(0, row.y - 8);
    if (row.y + row.height > this.scroll + this.height) this.scroll = row.y + row.height + 8 - this.height;
  }

  sums() { return this.selection ? sumsOf(this, Math.min(...this.selection), Math.max(...this.selection)) : null; }

  /** From a row of a table to its color. */
  colorsOf(table) {
    const held = this.theme.cache;
    const key = `of ${table}`;
    if (!held.has(key)) held.set(key, colorsOf(this.model, this.theme, table));
    return held.get(key);
  }

  /** The width of a text; measured once. */
  measure(context, text, isSmall) {
    const key = isSmall ? `s${text}` : text;
    let found = this.lengths.get(key);
    if (found === undefined) {
      if (this.lengths.size > 20000) this.lengths.clear();
      found = context.measureText(text).width;
      this.lengths.set(key, found);
    }
    return found;
  }

  /**
   * A picture to draw a track's columns in, and which of them are to be drawn: from `from` up to before `to`. After a
   * pan by whole pixels those that it has already are moved.
   */
  raster(track, wide, high) {
    let found = this.rasters.get(track);
    if (!found || found.canvas.width !== wide || found.canvas.height !== high) {
      const canvas = document.createElement("canvas");
      canvas.width = wide;
      canvas.height = high;
      const context = canvas.getContext("2d"), data = context.createImageData(wide, high);
      found = { canvas, context, data, pixels: new Uint32Array(data.data.buffer), shows: null };
      this.rasters.set(track, found);
    }
    const { t0, t1, search, theme: { cache } } = this, { shows, pixels } = found, step = (t1 - t0) / wide;
    const isAlike = shows?.search === search && shows.cache === cache && Math.abs(shows.step / step - 1) < 1e-9;
    const moved = isAlike ? (t0 - shows.t0) / step : NaN, by = Math.round(moved);
    if (Math.abs(moved - by) < 0.02 && Math.abs(by) < wide) {
      shift(pixels, wide, by);
      shows.t0 += by * step;
      [found.from, found.to] = by > 0 ? [wide - by, wide] : [0, -by];
    } else {
      pixels.fill(0);
      found.shows = { t0, step, search, cache };
      [found.from, found.to] = [0, wide];
    }
    return found;
  }
}

/** Move the columns of a picture to the left, or to the right where `by` is negative; what comes in is empty. */
function shift(pixels, wide, by) {
  if (!by) return;
  for (let row = 0; row < pixels.length; row += wide) {
    if (by > 0) {
      pixels.copyWithin(row, row + by, row + wide);
      pixels.fill(0, row + wide - by, row + wide);
    } else {
      pixels.copyWithin(row - by, row, row + wide + by);
      pixels.fill(0, row, row - by);
    }
  }
}
