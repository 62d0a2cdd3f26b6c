// Draws lanes: bars where events are wide enough, and where they are not, pixel columns as high as the track is busy.

import { PHASES } from "./levels.js";
import { PHASE_COLORS } from "./colors.js";
import { nameOf } from "./describe.js";

/** Above this many events a pixel a track is drawn as columns. */
const DENSE = 0.34;
const DIM = 0.16;
/** An event as wide as this is drawn by itself among columns. */
const WIDE = 24;

/** Draw the lanes of a view on its canvas. */
export function paintLanes(view, context) {
  const { width, height, dpr, scroll, theme, layout } = view;
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, width, height);
  for (const lane of layout.lanes) {
    const top = lane.y - scroll;
    if (top > height || top + lane.height < 0) continue;
    if (lane.index % 2) {
      context.fillStyle = theme.band;
      context.fillRect(0, top, width, lane.height);
    }
    context.fillStyle = theme.line;
    context.fillRect(0, top + lane.height - 1, width, 1);
  }
  paintGrid(view, context);
  for (const lane of layout.lanes) {
    for (const row of lane.rows) {
      const top = row.y - scroll;
      if (top < height && top + row.height > 0) paintRow(view, context, row, top);
    }
  }
}

function paintGrid(view, context) {
  context.fillStyle = view.theme.line;
  for (const tick of view.ticks().marks) context.fillRect(Math.round(view.x(tick)), 0, 1, view.height);
}

function paintRow(view, context, row, top) {
  const { track } = row;
  const [from, to] = track.visible(view.t0, view.t1);
  if (from >= to) return;
  if (track.spec.kind === "marks" && !row.isThin) paintMarks(view, context, row, top, from, to);
  else if (row.isThin || to - from > view.width * DENSE) paintColumns(view, context, row, top);
  else if (track.segments) paintLaunches(view, context, row, top, from, to);
  else paintBars(view, context, row, top, from, to);
}

function paintMarks(view, context, row, top, from, to) {
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

function paintBars(view, context, row, top, from, to) {
  const colors = view.colorsOf(row.track.spec.table);
  for (let i = from; i < to; i++) paintBar(view, context, row, top, i, colors);
  context.globalAlpha = 1;
}

function paintBar(view, context, row, top, i, colors) {
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
function isSolid(model, table, id) {
  if (table === "gpu") return model.word("gpu", "kind", id) === "kernel";
  return table !== "calls" || model.table("calls").at("source", id) !== 1;
}

function paintLaunches(view, context, row, top, from, to) {
  for (let i = from; i < to; i++) paintLaunch(view, context, row, top, i);
  context.globalAlpha = 1;
}

function paintLaunch(view, context, row, top, i) {
  const { track, height } = row, { model, theme, width } = view;
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
function paintSegments(view, context, { times, kinds }, top, high, isHollow) {
  const { theme, width } = view;
  for (let at = 0; at < 6; at++) {
    if (times[at + 1] <= times[at]) continue;
    const x0 = Math.max(-4, view.x(times[at])), x1 = Math.min(width + 4, view.x(times[at + 1]));
    if (x1 <= x0) continue;
    const hex = PHASE_COLORS[kinds[at]], color = theme.color(hex), isUnknown = kinds[at] === 5;
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

function longestSegment(track) {
  let best = 5, most = -1;
  for (let at = 0; at < 6; at++) {
    const lasting = track.times[at + 1] - track.times[at];
    if (lasting > most) { most = lasting; best = track.kinds[at]; }
  }
  return best;
}

/** Text between two x, cut to fit; nothing where not even some of it fits. */
function label(view, context, text, left, right, middle, ink, isSmall, isBacked) {
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
function paintColumns(view, context, row, top) {
  const { dpr } = view, { track } = row;
  const wide = Math.max(1, Math.round(view.width * dpr)), high = Math.max(1, Math.round(row.height * dpr));
  const image = view.raster(track, wide, high);
  if (image.from < image.to) {
    if (track.segments) phaseColumns(view, track, image, wide, high);
    else eventColumns(view, track, image, wide, high);
    image.context.putImageData(image.data, 0, 0);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(image.canvas, 0, Math.round(top * dpr));
  context.setTransform(dpr, 0, 0, dpr, 0, 0);
  if (!row.isThin) paintWide(view, context, row, top);
}

/** What is wide enough for its name is drawn as where there is room for all. */
function paintWide(view, context, row, top) {
  const { track, height } = row, colors = view.colorsOf(track.spec.table);
  for (const i of track.lasting(view.t0, view.t1, ((view.t1 - view.t0) / view.width) * WIDE)) {
    const left = view.x(track.start[i]);
    const wide = view.x(track.end[i]) - left;
    for (const color of row.lane.index % 2 ? [view.theme.ground, view.theme.band] : [view.theme.ground]) {
      context.fillStyle = color;
      context.fillRect(left, top, wide, height);
    }
    if (track.segments) paintLaunch(view, context, row, top, i);
    else paintBar(view, context, row, top, i, colors);
  }
  context.globalAlpha = 1;
}

function phaseColumns(view, track, { pixels, from, to, shows: { t0, step } }, wide, high) {
  const colors = PHASE_COLORS.map((hex) => view.theme.color(hex)), left = t0 + from * step;
  let begun = track.begunBy(left), first = track.firstOpen(left, begun);
  let now = new Float64Array(6), next = new Float64Array(6);
  track.phasesUntil(left, now, begun - 1);
  for (let x = from; x < to; x++) {
    const time = t0 + (x + 1) * step, after = track.begunBy(time, begun);
    if (after > first) {
      // The sums up to the last event's end will do where that ends here, and is one of many.
      const isWhole = after - first > 2 * high && track.end[after - 1] < time + step * 0.01;
      track.phasesUntil(isWhole ? Infinity : time, next, after - 1);
      const dim = view.search !== null && !view.search.between(track, first, after);
      let total = 0;
      for (let phase = 0; phase < 6; phase++) total += next[phase] - now[phase];
      const tall = Math.max(2, Math.min(1, total / step) * high);
      let y = high, filled = 0;
      // Where anything is, the column is faint above its share.
      const faint = colors[0].faintPixel;
      for (let at = 0; at < high; at++) pixels[at * wide + x] = faint;
      for (let phase = 0; phase < 6 && total > 0; phase++) {
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

function eventColumns(view, track, { pixels, from, to, shows: { t0, step } }, wide, high) {
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
