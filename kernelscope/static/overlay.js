// What lies over the lanes: the selected stretch, outlines of what is hovered and pinned, and the arrows from a
// launch or a call to what it asked the GPU for.

/** Draw all of it. */
export function paintOverlay(view, context) {
  const { theme, height } = view;
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
  }
}

/** Pairs of what asked and what was done for it, as [track, index] each. */
export function flows(view, event) {
  const { model } = view, { table, id } = event, pairs = [];
  const pair = (from, to) => { if (from && to) pairs.push([from, to]); };
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

function arrow(view, context, from, to) {
  const start = view.layout.rowOf(from.track), end = view.layout.rowOf(to.track);
  if (!start || !end) return;
  const isBelow = end.y > start.y;
  const x0 = view.x(departure(view, from)), x1 = view.x(to.track.start[to.index]);
  const y0 = start.y - view.scroll + (isBelow ? start.height : 0);
  const y1 = end.y - view.scroll + (isBelow ? 0 : end.height);
  const bend = Math.max(14, Math.abs(y1 - y0) * 0.45) * (isBelow ? 1 : -1);
  const limit = (x) => Math.min(Math.max(x, -1e5), 1e5);
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
function departure(view, event) {
  if (!event.track.segments) return event.track.start[event.index];
  event.track.segments(event.index);
  return event.track.times[5];
}

function outline(view, context, event, isPinned) {
  const row = view.layout.rowOf(event.track);
  if (!row) return;
  const left = Math.max(-3, view.x(event.track.start[event.index]));
  const right = Math.min(view.width + 3, view.x(event.track.end[event.index]));
  const wide = Math.max(3, right - left);
  context.strokeStyle = view.theme.ink;
  context.lineWidth = isPinned ? 2 : 1.2;
  context.strokeRect(left - 0.5, row.y - view.scroll - 1, wide + 1, row.height + 2);
  context.lineWidth = 1;
}
