// Draws lanes: bars where events are wide enough, and where they are not, pixel columns as high as the track is busy.

import { PHASES, PHASE_COLORS, PHASE_UNKNOWN } from "../shared/generated";
import { duration } from "../shared/text";
import type { Color } from "../shared/theme";
import { nameOf } from "./describe";
import { busyColumns } from "./groups";
import type { Lane, Row } from "./layout";
import type { Model } from "./model";
import { AreaTrack, LaunchTrack, SEGMENTS, type Track } from "./tracks";
import type { Raster, TimelineEvent, View } from "./view";
import type { TableName } from "./wire";

/** Above this many events a pixel a track is drawn as columns. */
const DENSE = 0.34;
const DIM = 0.16;
/** An event as wide as this is drawn by itself among columns. */
const WIDE = 24;

/** Draw the lanes of a view on its canvas. */
export function paintLanes(view: View, context: CanvasRenderingContext2D) {
  const { width, height, dpr, theme, layout } = view;
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, width, height);
  // Lanes that stay in view hide those that scroll under them: they are painted last, over the ground.
  paintSome(view, context, layout.lanes.filter((lane) => !lane.isStuck));
  if (!layout.stuck) return;
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, width, layout.stuck);
  context.save();
  context.beginPath();
  context.rect(0, 0, width, layout.stuck);
  context.clip();
  paintSome(view, context, layout.lanes.filter((lane) => lane.isStuck));
  context.restore();
  context.fillStyle = theme.soft;
  context.fillRect(0, layout.stuck - 1, width, 1);
}

function paintSome(view: View, context: CanvasRenderingContext2D, lanes: Lane[]) {
  const { width, height, scroll, theme, layout } = view;
  const isSeen = (top: number, high: number, lane: Lane) => top < height && top + high > (lane.isStuck ? 0 : layout.stuck);
  for (const lane of lanes) {
    const top = lane.y - layout.shift(lane, scroll);
    if (!isSeen(top, lane.height, lane)) continue;
    if (lane.index % 2) {
      context.fillStyle = theme.band;
      context.fillRect(0, top, width, lane.height);
    }
    context.fillStyle = theme.line;
    context.fillRect(0, top + lane.height - 1, width, 1);
  }
  paintGrid(view, context);
  paintBreaks(view, context);
  for (const lane of lanes) {
    const header = lane.y - layout.shift(lane, scroll);
    if (lane.processes.length && isSeen(header, lane.height, lane)) paintBusy(view, context, lane, header);
    for (const row of lane.rows) {
      const top = view.top(row);
      if (isSeen(top, row.height, lane)) paintRow(view, context, row, top);
    }
  }
}

function paintGrid(view: View, context: CanvasRenderingContext2D) {
  context.fillStyle = view.theme.line;
  for (const tick of view.ticks().marks) context.fillRect(Math.round(view.x(tick)), 0, 1, view.height);
}

/** Idle time that is drawn short: stripes. */
function paintBreaks(view: View, context: CanvasRenderingContext2D) {
  const { theme } = view;
  for (const each of view.model.axis.breaks) {
    const left = view.x(each.at), wide = Math.max(2, view.x(each.at + each.shown) - left);
    if (left > view.width || left + wide < 0) continue;
    context.fillStyle = theme.stripes(context, "#888888", false);
    context.globalAlpha = 0.35;
    context.fillRect(left, 0, wide, view.height);
    context.globalAlpha = 1;
  }
}

/** How long idle time was, upright in its stripes, where there is room. */
function paintLengths(view: View, context: CanvasRenderingContext2D) {
  const { theme, height } = view;
  for (const each of view.model.axis.breaks) {
    const left = view.x(each.at), wide = view.x(each.at + each.shown) - left;
    if (left > view.width || left + wide < 0 || wide < 9) continue;
    const lasted = duration(each.to - each.from), fits = (text: string) => view.measure(context, text, true) + 12 < height;
    const text = [`${lasted} idle`, lasted].find(fits);
    if (!text) continue;
    const long = view.measure(context, text, true);
    context.save();
    context.translate(left + wide / 2, height / 2);
    context.rotate(-Math.PI / 2);
    context.fillStyle = theme.ground;
    context.fillRect(-long / 2 - 4, -6.5, long + 8, 13);
    context.font = theme.small;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = theme.ink;
    context.fillText(text, 0, 0.5);
    context.restore();
  }
}

function paintRow(view: View, context: CanvasRenderingContext2D, row: Row, top: number) {
  const { track } = row;
  if (view.overview) { paintOverview(view, context, row, top, view.overview[track.spec.track] ?? []); return; }
  const [from, to] = track.visible(view.t0, view.t1);
  if (from >= to) return;
  if (track instanceof AreaTrack) paintArea(view, context, row, track, top);
  else if (track.spec.kind === "marks" && !row.isThin) paintMarks(view, context, row, top, from, to);
  else if (row.isThin || to - from > view.width * DENSE) paintColumns(view, context, row, top);
  else if (track instanceof LaunchTrack) paintLaunches(view, context, row, track, top, from, to);
  else paintBars(view, context, row, top, from, to);
}

/** How busy the processes of a group were. */
function paintBusy(view: View, context: CanvasRenderingContext2D, lane: Lane, top: number) {
  const { dpr } = view, wide = Math.max(1, Math.round(view.width * dpr)), high = Math.round((lane.height - 5) * dpr);
  const image = view.raster(lane, wide, high);
  if (image.from < image.to) {
    busyColumns(view, lane.processes, image, wide, high);
    image.context.putImageData(image.data, 0, 0);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(image.canvas, 0, Math.round((top + 2) * dpr));
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
}

/** How far the clock of each process can be off, around the pointer. */
function paintBounds(view: View, context: CanvasRenderingContext2D, pointer: number) {
  const { layout, theme, model, width, t0, t1 } = view;
  context.fillStyle = theme.ink;
  for (const lane of layout.lanes) {
    const bound = lane.spec.group === "worker" ? model.header.processes?.[lane.processes[0]].bound : null;
    const half = ((bound ?? 0) / (t1 - t0)) * width, top = lane.y - layout.shift(lane, view.scroll);
    if (half < 1.5 || (!lane.isStuck && top < layout.stuck)) continue;
    context.fillRect(pointer - half, top + lane.height / 2, 2 * half, 1);
    for (const x of [pointer - half, pointer + half]) context.fillRect(x - 0.5, top + lane.height / 2 - 4, 1, 9);
  }
}

/** A track's columns before its events are known: launches by phase, others in the color that has most. */
function paintOverview(
  view: View, context: CanvasRenderingContext2D, row: Row, top: number, colors: [color: string, shares: string][],
) {
  const held = colors.map(([, shares]) => Uint8Array.from(atob(shares), (each) => each.charCodeAt(0)));
  const columns = held[0]?.length ?? 0, left = view.x(0), wide = (view.x(view.model.span) - left) / columns;
  const isStacked = row.track instanceof LaunchTrack, most = new Uint8Array(columns), total = new Float64Array(columns);
  held.forEach((shares, which) => {
    for (let at = 0; at < columns; at++) {
      total[at] += shares[at];
      if (shares[at] > held[most[at]][at]) most[at] = which;
    }
  });
  const bottom = new Float64Array(columns).fill(top + row.height);
  colors.forEach(([hex], which) => {
    const color = view.theme.color(hex), shares = held[which];
    const bars = (css: string, high: (at: number) => number) => {
      context.fillStyle = css;
      context.beginPath();
      for (let at = 0; at < columns; at++) {
        const tall = total[at] ? high(at) : 0;
        if (tall) context.rect(left + at * wide, bottom[at] -= tall, wide + 0.5, tall);
      }
      context.fill();
    };
    const tall = (at: number) => Math.max(2, Math.min(1, total[at] / 255) * row.height);
    if (isStacked) {
      if (!which) { bars(color.faint, () => row.height); bottom.fill(top + row.height); }
      bars(color.css, (at) => (tall(at) * shares[at]) / total[at]);
    } else {
      bars(color.faint, (at) => (most[at] === which ? row.height : 0));
      for (let at = 0; at < columns; at++) if (most[at] === which) bottom[at] = top + row.height;
      bars(color.css, (at) => (most[at] === which ? tall(at) : 0));
    }
  });
}

function paintMarks(view: View, context: CanvasRenderingContext2D, row: Row, top: number, from: number, to: number) {
  const { track } = row, { model } = view, colors = view.colorsOf("ranges");
  let last = -10;
  for (let i = from; i < to; i++) {
    const id = track.id(i), x = view.x(track.start[i]), isFound = view.isFound(track, i);
    if (x - last < 0.5 && !isFound) continue;
    last = x;
    context.globalAlpha = isFound ? 1 : DIM;
    context.fillStyle = colors(id).css;
    context.fillRect(x - 0.75, top, 1.5, row.height);
    context.beginPath();
    context.moveTo(x - 4, top);
    context.lineTo(x + 4, top);
    context.lineTo(x, top + 6);
    context.fill();
    const next = i + 1 < track.n ? view.x(track.start[i + 1]) : Infinity;
    label(view, context, nameOf(model, "ranges", id), x + 5, Math.min(next, view.width) - 6, top + row.height / 2 + 1,
      view.theme.ink);
  }
  context.globalAlpha = 1;
}

/** Samples of a counter: of each pixel's width the mean as its height; what was lost is striped. */
function paintArea(view: View, context: CanvasRenderingContext2D, { height }: Row, track: AreaTrack, top: number) {
  const { dpr, theme, t0, t1 } = view, wide = Math.max(1, Math.round(view.width * dpr));
  const means = new Float64Array(wide), pixel = view.width / wide, bottom = top + height;
  track.means(t0, (t1 - t0) / wide, means);
  const color = view.colorsOf("samples")(0);
  context.globalAlpha = view.isFound(track, 0) ? 1 : DIM;
  for (const [css, isFull] of [[color.faint, true], [color.css, false]] as const) {
    context.fillStyle = css;
    context.beginPath();
    for (let x = 0, from = 0; x < wide; x = from) {
      for (from = x + 1; from < wide && (Object.is(means[from], means[x]) || (isFull && means[from] >= 0 && means[x] >= 0)); from++);
      const high = isFull ? height : means[x] * height;
      if (means[x] >= 0) context.rect(x * pixel, bottom - high, (from - x) * pixel, high);
    }
    context.fill();
  }
  context.fillStyle = theme.stripes(context, "#888888", true);
  for (const i of track.lost) {
    const left = view.x(track.start[i]), right = view.x(track.end[i]);
    if (right > 0 && left < view.width) context.fillRect(left, top, Math.max(1, right - left), height);
  }
  context.globalAlpha = 1;
}

function paintBars(view: View, context: CanvasRenderingContext2D, row: Row, top: number, from: number, to: number) {
  const colors = view.colorsOf(row.track.spec.table);
  for (let i = from; i < to; i++) paintBar(view, context, row, top, i, colors);
  context.globalAlpha = 1;
}

function paintBar(
  view: View, context: CanvasRenderingContext2D, row: Row, top: number, i: number, colors: (row: number) => Color,
) {
  const { track, height } = row, { model, theme, width } = view, table = track.spec.table;
  const id = track.id(i), color = colors(id);
  const x0 = Math.max(-4, view.x(track.start[i])), x1 = Math.min(width + 4, view.x(track.end[i]));
  const wide = Math.max(1, x1 - x0 - (x1 - x0 > 3 ? 1 : 0));
  context.globalAlpha = view.isFound(track, i) ? 1 : DIM;
  const isUnknown = track.isOpen(i) || track.isUnstarted(i), isStriped = isUnknown || !isSolid(model, table, id);
  context.fillStyle = isStriped ? theme.stripes(context, color.hex, isUnknown) : color.css;
  context.fillRect(x0, top, wide, height);
  if ((isStriped || color.isLost) && wide > 2) {
    context.strokeStyle = color.isLost ? theme.strong : color.css;
    context.strokeRect(x0 + 0.5, top + 0.5, wide - 1, height - 1);
  }
  if (wide > 18) {
    label(view, context, nameOf(model, table, id), Math.max(x0, 0) + 4, Math.min(x1, width) - 4,
      top + height / 2 + 0.5, isStriped ? theme.ink : color.ink, height < 15, isStriped);
  }
}

/** Copies and waits are striped, so that they differ from kernels and calls in more than color. */
function isSolid(model: Model, table: TableName, id: number) {
  if (table === "gpu") return model.word("gpu", "kind", id) === "kernel";
  return table !== "calls" || model.table("calls").at("source", id) !== 1;
}

function paintLaunches(
  view: View, context: CanvasRenderingContext2D, row: Row, track: LaunchTrack, top: number, from: number, to: number,
) {
  for (let i = from; i < to; i++) paintLaunch(view, context, row, track, top, i);
  context.globalAlpha = 1;
}

function paintLaunch(
  view: View, context: CanvasRenderingContext2D, { height }: Row, track: LaunchTrack, top: number, i: number,
) {
  const { model, theme, width } = view;
  const named = height > 22 ? 11 : 0, bar = height - named;
  context.globalAlpha = view.isFound(track, i) ? 1 : DIM;
  track.segments(i);
  const left = view.x(track.start[i]), right = view.x(track.end[i]);
  if (right - left < 1) {
    context.fillStyle = theme.color(PHASE_COLORS[longestSegment(track)]).css;
    context.fillRect(left, top + named, 1, bar);
    return;
  }
  const isCaptured = model.table("launches").at("capture", track.id(i)) >= 0;
  paintSegments(view, context, track, top + named, bar, isCaptured);
  if (right - left > 5) {
    context.fillStyle = theme.ground;
    context.fillRect(right - 1, top + named, 1, bar);
  }
  const isFailed = model.table("launches").at("error", track.id(i)) >= 0;
  if (isFailed) {
    context.fillStyle = "#d1242f";
    context.fillRect(left, top + height - 2, Math.max(2, right - left), 2);
  }
  if (named && right - left > 22) {
    const name = nameOf(model, "launches", track.id(i));
    label(view, context, isFailed ? `✕ ${name}` : name, Math.max(left, 0) + 1, Math.min(right, width) - 4, top + 5,
      theme.ink);
  }
}

/** What was captured into a graph did not run: it is hollow. */
function paintSegments(
  view: View, context: CanvasRenderingContext2D, { times, kinds }: LaunchTrack, top: number, high: number,
  isHollow: boolean,
) {
  const { theme, width } = view;
  for (let at = 0; at < SEGMENTS; at++) {
    if (times[at + 1] <= times[at]) continue;
    const x0 = Math.max(-4, view.x(times[at])), x1 = Math.min(width + 4, view.x(times[at + 1]));
    if (x1 <= x0) continue;
    const hex = PHASE_COLORS[kinds[at]], color = theme.color(hex), isUnknown = kinds[at] === PHASE_UNKNOWN;
    context.fillStyle = isHollow ? theme.ground : isUnknown ? theme.stripes(context, hex, true) : color.css;
    context.fillRect(x0, top, x1 - x0, high);
    if (isHollow) {
      context.strokeStyle = color.css;
      context.strokeRect(x0 + 0.5, top + 0.5, Math.max(x1 - x0 - 1, 0.5), high - 1);
    }
    if (x1 - x0 > 44) {
      label(view, context, PHASES[kinds[at]], Math.max(x0, 0) + 4, Math.min(x1, width) - 3, top + high / 2 + 0.5,
        isUnknown || isHollow ? theme.ink : color.ink, true);
    }
  }
}

function longestSegment(track: LaunchTrack) {
  let best = PHASE_UNKNOWN, most = -1;
  for (let at = 0; at < SEGMENTS; at++) {
    const lasting = track.times[at + 1] - track.times[at];
    if (lasting > most) { most = lasting; best = track.kinds[at]; }
  }
  return best;
}

/** Text between two x, cut to fit; nothing where not even some of it fits. */
function label(
  view: View, context: CanvasRenderingContext2D, text: string, left: number, right: number, middle: number, ink: string,
  isSmall = false, isBacked = false,
) {
  const room = right - left;
  if (room < 12 || !text) return;
  context.font = isSmall ? view.theme.small : view.theme.font;
  const full = view.measure(context, text, isSmall);
  let shown = text;
  if (full > room) {
    const fits = Math.floor((text.length * room) / full) - 1;
    if (fits < 2) return;
    shown = `${text.slice(0, fits)}…`;
  }
  if (isBacked) {
    // Stripes would run through the letters.
    context.fillStyle = view.theme.veil;
    context.fillRect(left - 2, middle - 6, Math.min(full, room) + 4, 12);
  }
  context.fillStyle = ink;
  context.textBaseline = "middle";
  context.fillText(shown, left, middle);
}

/** One column a device pixel: its height is the share of time in which the track was busy. */
function paintColumns(view: View, context: CanvasRenderingContext2D, row: Row, top: number) {
  const { dpr } = view, { track } = row;
  const wide = Math.max(1, Math.round(view.width * dpr)), high = Math.max(1, Math.round(row.height * dpr));
  const image = view.raster(track, wide, high);
  if (image.from < image.to) {
    if (track instanceof LaunchTrack) phaseColumns(view, track, image, wide, high);
    else eventColumns(view, track, image, wide, high);
    image.context.putImageData(image.data, 0, 0);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(image.canvas, 0, Math.round(top * dpr));
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  if (!row.isThin) paintWide(view, context, row, top);
}

/** What is wide enough for its name is drawn as where there is room for all. */
function paintWide(view: View, context: CanvasRenderingContext2D, row: Row, top: number) {
  const { track, height } = row, colors = view.colorsOf(track.spec.table);
  for (const i of track.lasting(view.t0, view.t1, ((view.t1 - view.t0) / view.width) * WIDE)) {
    const left = view.x(track.start[i]);
    const wide = view.x(track.end[i]) - left;
    for (const color of row.lane.index % 2 ? [view.theme.ground, view.theme.band] : [view.theme.ground]) {
      context.fillStyle = color;
      context.fillRect(left, top, wide, height);
    }
    if (track instanceof LaunchTrack) paintLaunch(view, context, row, track, top, i);
    else paintBar(view, context, row, top, i, colors);
  }
  context.globalAlpha = 1;
}

function phaseColumns(
  view: View, track: LaunchTrack, { pixels, from, to, shows: { t0, step } }: Raster, wide: number, high: number,
) {
  const colors = PHASE_COLORS.map((hex) => view.theme.color(hex)), left = t0 + from * step;
  let begun = track.begunBy(left), first = track.firstOpen(left, begun);
  let now = new Float64Array(PHASES.length), next = new Float64Array(PHASES.length);
  track.phasesUntil(left, now, begun - 1);
  for (let x = from; x < to; x++) {
    const time = t0 + (x + 1) * step, after = track.begunBy(time, begun);
    if (after > first) {
      // The sums up to the last event's end will do where that ends here, and is one of many.
      const isWhole = after - first > 2 * high && track.end[after - 1] < time + step * 0.01;
      track.phasesUntil(isWhole ? Infinity : time, next, after - 1);
      const dim = view.search !== null && !view.search.between(track, first, after);
      let total = 0;
      for (let phase = 0; phase < PHASES.length; phase++) total += next[phase] - now[phase];
      const tall = Math.max(2, Math.min(1, total / step) * high);
      let y = high, filled = 0;
      // Where anything is, the column is faint above its share.
      const faint = colors[0].faintPixel;
      for (let at = 0; at < high; at++) pixels[at * wide + x] = faint;
      for (let phase = 0; phase < PHASES.length && total > 0; phase++) {
        const spent = next[phase] - now[phase];
        if (spent <= 0) continue;
        filled += spent;
        const until = high - (filled / total) * tall, color = dim ? colors[phase].faintPixel : colors[phase].pixel;
        for (; y - 0.5 > until && y > 0; y--) pixels[(y - 1) * wide + x] = color;
      }
      if (total <= 0) for (let at = 1; at <= Math.min(2, high); at++) pixels[(high - at) * wide + x] = colors[0].pixel;
      [now, next] = [next, now];
      first = track.firstOpen(time, after);
    }
    begun = after;
  }
}

function eventColumns(
  view: View, track: Track, { pixels, from, to, shows: { t0, step } }: Raster, wide: number, high: number,
) {
  const colors = view.colorsOf(track.spec.table), left = t0 + from * step;
  let begun = track.begunBy(left), first = track.firstOpen(left, begun), busy = track.busyUntil(left, begun - 1);
  for (let x = from; x < to; x++) {
    const time = t0 + (x + 1) * step, after = track.begunBy(time, begun);
    if (after > first) {
      const until = track.busyUntil(time, after - 1);
      const color = colors(track.id(track.longest(first, after)));
      const dim = view.search !== null && !view.search.between(track, first, after);
      const tall = Math.max(Math.min(2, high), Math.round(Math.min(1, (until - busy) / step) * high));
      const full = high - tall, ink = dim ? color.faintPixel : color.pixel;
      for (let y = 0; y < high; y++) pixels[y * wide + x] = y < full ? color.faintPixel : ink;
      busy = until;
      first = track.firstOpen(time, after);
    }
    begun = after;
  }
}

// What lies over the lanes: the selected stretch, outlines of what is hovered and pinned, and the arrows from a
// launch or a call to what it asked the GPU for.

/** Draw all of it. */
export function paintOverlay(view: View, context: CanvasRenderingContext2D) {
  const { theme, height } = view;
  paintLengths(view, context);
  for (const stretch of [view.selection, view.box]) {
    if (!stretch) continue;
    const left = view.x(Math.min(...stretch)), right = view.x(Math.max(...stretch));
    context.fillStyle = theme.isDark ? "rgba(110,170,255,.13)" : "rgba(30,100,220,.09)";
    context.fillRect(left, 0, right - left, height);
    context.fillStyle = theme.accent;
    for (const x of [left, right]) context.fillRect(Math.round(x) - 0.5, 0, 1, height);
  }
  for (const event of [view.hover, view.pinned]) {
    if (!event) continue;
    for (const [from, to] of flows(view, event)) arrow(view, context, from, to);
    outline(view, context, event, event === view.pinned);
  }
  if (view.pointer !== null && !view.box) {
    context.fillStyle = theme.strong;
    context.fillRect(Math.round(view.pointer), 0, 1, height);
    paintBounds(view, context, view.pointer);
  }
}

/** Pairs of what asked and what was done for it, as [track, index] each. */
function flows(view: View, event: TimelineEvent) {
  const { model } = view, { table, id } = event, pairs: [TimelineEvent, TimelineEvent][] = [];
  const pair = (from: TimelineEvent | null, to: TimelineEvent | null) => { if (from && to) pairs.push([from, to]); };
  if (table === "launches") {
    const kernel = model.kernelOfLaunch[id];
    if (kernel >= 0) pair(event, view.find("gpu", kernel));
  } else if (table === "gpu") {
    const gpu = model.table("gpu"), launch = gpu.at("launch", id), call = gpu.at("call", id);
    if (launch >= 0) pair(view.find("launches", launch), event);
    else if (call >= 0) pair(view.find("calls", call), event);
  } else if (table === "calls") {
    const asked = model.activitiesOfCall(id);
    if (asked.length) {
      const graph = model.table("gpu").at("graph", asked[0]);
      pair(event, graph >= 0 ? view.find("graphs", graph) : view.find("gpu", asked[0]));
    }
  } else if (table === "graphs") {
    const graphs = model.table("graphs"), call = graphs.at("call", id), asked = graphs.at("event", id);
    if (asked >= 0) pair(view.find("events", asked), event);
    else if (call >= 0) pair(view.find("calls", call), event);
  } else if (table === "events") {
    const run = model.runOfEvent.get(id);
    if (run !== undefined) pair(event, view.find("graphs", run));
  } else if (table === "compiles") {
    const launch = model.table("compiles").at("launch_id", id);
    if (launch >= 0) pair(view.find("launches", launch), event);
  }
  return pairs;
}

function arrow(view: View, context: CanvasRenderingContext2D, from: TimelineEvent, to: TimelineEvent) {
  const start = view.layout.rowOf(from.track), end = view.layout.rowOf(to.track);
  if (!start || !end) return;
  const isBelow = view.top(end) > view.top(start);
  const x0 = view.x(departure(from)), x1 = view.x(to.track.start[to.index]);
  const y0 = view.top(start) + (isBelow ? start.height : 0), y1 = view.top(end) + (isBelow ? 0 : end.height);
  const bend = Math.max(14, Math.abs(y1 - y0) * 0.45) * (isBelow ? 1 : -1);
  const limit = (x: number) => Math.min(Math.max(x, -1e5), 1e5);
  context.strokeStyle = context.fillStyle = view.theme.ink;
  context.lineWidth = 1.4;
  context.beginPath();
  context.moveTo(limit(x0), y0);
  context.bezierCurveTo(limit(x0), y0 + bend, limit(x1), y1 - bend, limit(x1), y1 - (isBelow ? 5 : -5));
  context.stroke();
  context.beginPath();
  context.moveTo(limit(x1) - 4, y1 - (isBelow ? 6 : -6));
  context.lineTo(limit(x1) + 4, y1 - (isBelow ? 6 : -6));
  context.lineTo(limit(x1), y1);
  context.fill();
  context.lineWidth = 1;
}

/** An arrow leaves a launch where its driver call ended; else where the event began. */
function departure(event: TimelineEvent) {
  const { track, index } = event;
  if (!(track instanceof LaunchTrack)) return track.start[index];
  track.segments(index);
  return track.times[5];
}

function outline(view: View, context: CanvasRenderingContext2D, event: TimelineEvent, isPinned: boolean) {
  const row = view.layout.rowOf(event.track);
  if (!row) return;
  const left = Math.max(-3, view.x(event.track.start[event.index]));
  const right = Math.min(view.width + 3, view.x(event.track.end[event.index]));
  const wide = Math.max(3, right - left);
  context.strokeStyle = view.theme.ink;
  context.lineWidth = isPinned ? 2 : 1.2;
  context.strokeRect(left - 0.5, view.top(row) - 1, wide + 1, row.height + 2);
  context.lineWidth = 1;
}
