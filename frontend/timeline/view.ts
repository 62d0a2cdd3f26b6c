// What is shown: the stretch of time, the scroll position, what is hovered, pinned, selected and searched for.

import { contextOf } from "../shared/dom";
import type { Color, Theme } from "../shared/theme";
import { colorsOf } from "./colors";
import { type Break, above, axisOf } from "./axis";
import { Busy } from "./groups";
import { type Kept, type Lane, Layout, type Row } from "./layout";
import type { Model } from "./model";
import { type EventPlace, Search } from "./search";
import { type Sums, sumsOf } from "./sums";
import { type Track, makeTracks } from "./tracks";
import type { Header, TableName } from "./wire";

/** The least stretch of time that fills the width, in nanoseconds. */
const LEAST_SPAN = 10;
const MARGIN = 0.012;

/** An event, with the table and the row that it is. */
export interface TimelineEvent extends EventPlace {
  id: number;
  table: TableName;
}

/** A picture of a track's columns, which of them are to be drawn anew, and what the others show. */
export interface Raster {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  data: ImageData;
  pixels: Int32Array;
  from: number;
  to: number;
  shows: { t0: number; step: number; search: Search | null; cache: Map<string, Color> };
}

export class View {
  tracks: Map<number, Track>;
  layout: Layout;
  /** The starts of breaks that the reader has unfolded. */
  private readonly unfolded = new Set<number>();
  width = 600;
  height = 200;
  dpr = 1;
  scroll = 0;
  /** What is shown: from one time to another. */
  t0 = 0;
  t1 = 0;
  hover: TimelineEvent | null = null;
  pinned: TimelineEvent | null = null;
  /** A stretch of time that is summed up, and one that is being drawn to zoom into. */
  selection: [number, number] | null = null;
  box: [number, number] | null = null;
  search: Search | null = null;
  /** Where the pointer is, in pixels. */
  pointer: number | null = null;
  /** What is drawn as long as nothing else is known. */
  overview: Header["overview"];
  private readonly lengths = new Map<string, number>();
  private readonly colors = new Map<TableName, (row: number) => Color>();
  private readonly rasters = new Map<Track | Lane, Raster>();
  /** How busy processes were. */
  busy = new Busy(this);

  constructor(readonly model: Model, readonly theme: Theme, readonly kept: Kept) {
    this.tracks = makeTracks(model);
    this.layout = new Layout(model, this.tracks, kept);
    this.fit();
  }

  /** Draw a stretch of idle time as long as it was, or short again; without one, all short. */
  unfold(found: Break | null) {
    const shown = [this.t0, this.t1].map((time) => this.model.axis.real(time)), pinned = this.pinned;
    if (found?.isOpen) this.unfolded.delete(found.from);
    else if (found) this.unfolded.add(found.from);
    else this.unfolded.clear();
    this.model.axis = axisOf(this.model, this.unfolded);
    this.tracks = makeTracks(this.model);
    this.layout = new Layout(this.model, this.tracks, this.kept);
    this.busy = new Busy(this);
    this.rasters.clear();
    this.hover = this.selection = this.box = this.search = null;
    this.pinned = pinned ? this.find(pinned.table, pinned.id) : null;
    const [t0, t1] = shown.map((time) => this.model.axis.place(time));
    this.show(t0, t1);
  }

  /** Where a row is in what is seen. */
  top(row: Row) { return row.y - this.layout.shift(row.lane, this.scroll); }

  /** The pixel of a time; exact, for both are differences of whole nanoseconds. */
  x(time: number) { return ((time - this.t0) / (this.t1 - this.t0)) * this.width; }

  time(x: number) { return this.t0 + (x / this.width) * (this.t1 - this.t0); }

  limits(): [number, number] {
    const span = Math.max(this.model.span, LEAST_SPAN);
    return [-span * MARGIN, span * (1 + MARGIN)];
  }

  fit() { [this.t0, this.t1] = this.limits(); }

  /** Show a stretch of time; it is kept within the recording. */
  show(t0: number, t1: number) {
    const [least, most] = this.limits();
    const span = Math.min(Math.max(t1 - t0, LEAST_SPAN), most - least);
    const middle = (t0 + t1) / 2;
    this.t0 = Math.min(Math.max(middle - span / 2, least), most - span);
    this.t1 = this.t0 + span;
  }

  zoom(factor: number, x: number = this.width / 2) {
    const at = this.time(x), span = Math.max(LEAST_SPAN, (this.t1 - this.t0) * factor), share = x / this.width;
    const [least, most] = this.limits();
    if (span >= most - least) { this.fit(); return; }
    this.show(at - span * share, at + span * (1 - share));
  }

  pan(pixels: number) {
    const by = (pixels / this.width) * (this.t1 - this.t0);
    this.show(this.t0 + by, this.t1 + by);
  }

  /** Where the ruler's ticks are, about a hundred pixels apart, at round real times, and the distance of those. */
  ticks() {
    const wanted = ((this.t1 - this.t0) / this.width) * 110, scale = 10 ** Math.floor(Math.log10(wanted));
    const step = Math.max(1, [1, 2, 5, 10].map((digit) => digit * scale).find((each) => each >= wanted) ?? 10 * scale);
    const { axis } = this.model, marks: number[] = [];
    // Stretches of real time between breaks, none of which has a tick inside.
    const breaks = axis.breaks.filter((each) => each.at + each.shown > this.t0 && each.at < this.t1);
    const edges = [this.t0, ...breaks.flatMap((each) => [each.at, each.at + each.shown]), this.t1];
    for (let at = 0; at < edges.length; at += 2) {
      const from = axis.real(edges[at]), span = edges[at + 1] - edges[at];
      for (let tick = Math.ceil(from / step); tick * step <= from + span; tick++) {
        marks.push(edges[at] + tick * step - from);
      }
    }
    return { step, marks };
  }

  isFound(track: Track, i: number) { return !this.search || this.search.has(track, i); }

  /** Search for names, or for what lines of code made: those of `lines`, or the one that the text is, as `sim.py:12`. */
  seek(text: string, lines: number[] = []) {
    const { model } = this, wanted = lines.length ? lines
      : model.facts.lines.flatMap(({ at }, row) => (at === text.trim() ? [row] : []));
    this.search = text ? new Search(model, this.tracks, text, wanted) : null;
  }

  event(track: Track, index: number): TimelineEvent {
    return { track, index, id: track.id(index), table: track.spec.table };
  }

  /** An event by its table and row; null where it is not drawn. */
  find(table: TableName, row: number): TimelineEvent | null {
    const held = this.model.table(table);
    if (row < 0 || row >= held.rows) return null;
    const track = this.tracks.get(held.at("track", row));
    if (!track) return null;
    if (!track.ids) return this.event(track, row);
    const index = above(track.ids, row) - 1;
    return track.ids[index] === row ? this.event(track, index) : null;
  }

  /** The event at a place of the canvas, or near it; the shortest where several are. */
  hit(x: number, y: number): TimelineEvent | null {
    const row = this.layout.rowAt(y, this.scroll);
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
  reveal(event: TimelineEvent): void {
    const row = this.layout.rowOf(event.track);
    const folded = row ? [row.lane].filter((lane) => lane.isFolded) : this.layout.foldedAround(event.track);
    if (folded.length) {
      for (const lane of folded) this.layout.fold(lane, false);
      this.reveal(event);
      return;
    }
    const start = event.track.start[event.index], end = event.track.end[event.index];
    const span = this.t1 - this.t0, lasting = Math.max(end - start, 1), pixels = (lasting / span) * this.width;
    if (pixels < 4 || lasting > span * 0.9) {
      const shown = lasting * (pixels < 4 ? 12 : 1.6), middle = (start + end) / 2;
      this.show(middle - shown / 2, middle + shown / 2);
    } else if (start < this.t0 || end > this.t1) {
      this.show((start + end - span) / 2, (start + end + span) / 2);
    }
    if (!row || row.lane.isStuck) return;
    const above = this.layout.stuck;
    if (row.y < this.scroll + above) this.scroll = Math.max(0, row.y - 8 - above);
    if (row.y + row.height > this.scroll + this.height) this.scroll = row.y + row.height + 8 - this.height;
  }

  sums(): Sums | null {
    return this.selection && sumsOf(this, Math.min(...this.selection), Math.max(...this.selection));
  }

  /** From a row of a table to its color. */
  colorsOf(table: TableName): (row: number) => Color {
    let found = this.colors.get(table);
    if (!found) {
      found = colorsOf(this.model, this.theme, table);
      this.colors.set(table, found);
    }
    return found;
  }

  /** Take the colors from the page. */
  retheme() {
    this.theme.read();
    this.colors.clear();
  }

  /** The width of a text; measured once. */
  measure(context: CanvasRenderingContext2D, text: string, isSmall = false): number {
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
   * A picture to draw the columns of a track, or of a group's header, in, and which of them are to be drawn: from `from` up to before `to`. After a
   * pan by whole pixels those that it has already are moved.
   */
  raster(of: Track | Lane, wide: number, high: number): Raster {
    let found = this.rasters.get(of);
    if (!found || found.canvas.width !== wide || found.canvas.height !== high) {
      const canvas = document.createElement("canvas");
      canvas.width = wide;
      canvas.height = high;
      const context = contextOf(canvas), data = context.createImageData(wide, high);
      const shows = { t0: NaN, step: NaN, search: null, cache: new Map<string, Color>() };
      found = { canvas, context, data, pixels: new Int32Array(data.data.buffer), from: 0, to: 0, shows };
      this.rasters.set(of, found);
    }
    const { t0, t1, search, theme: { cache } } = this, { shows, pixels } = found, step = (t1 - t0) / wide;
    const isAlike = shows.search === search && shows.cache === cache && Math.abs(shows.step / step - 1) < 1e-9;
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
function shift(pixels: Int32Array, wide: number, by: number) {
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
