// Where each node, body and line of a graph is, with some boxes open: what graph_place.py does for the static picture,
// line by line, and a test holds the two together. Levels and lengths come from Python.

/** A level's key: the number of the node around it, and which of its bodies. */
export const keyOf = ([around, body]) => `${around}/${body}`;
const TOP = "-1/0";

/**
 * Place everything.
 *
 * @param {object} layout - `levels` and `lengths`, as Python sent them.
 * @param {Set<number>} opened - The numbers of the open boxes.
 * @returns {{width: number, height: number, nodes: Map, bodies: Map, lines: object[]}} Frames of nodes by number, those
 *          of bodies by key, and lines with their paths.
 */
export function placed(layout, opened) {
  const found = { width: 0, height: 0, nodes: new Map(), bodies: new Map(), lines: [] };
  const making = new Placing(layout, opened);
  if (making.levels.has(TOP)) {
    [found.width, found.height] = making.size(TOP);
    making.put(TOP, 0, 0, found);
  }
  return found;
}

class Placing {
  constructor({ levels, lengths }, opened) {
    this.lengths = lengths;
    this.levels = new Map(levels.map((level) => [keyOf(level.place), level]));
    this.inside = new Map();
    for (const { place, spots } of levels) {
      if (place[0] < 0 || !opened.has(place[0]) || !spots.length) continue;
      if (!this.inside.has(place[0])) this.inside.set(place[0], []);
      this.inside.get(place[0]).push(keyOf(place));
    }
    this.held = new Map();
  }

  size(key) {
    const { column_gap: beside, shelf_gap: below } = this.lengths, columns = this.columns(key);
    const rows = this.levels.get(key).shelves.map((shelf) => shelf.map((at) => columns[at]));
    const width = Math.max(...rows.map((row) => row.reduce((sum, { width: each }) => sum + each + beside, -beside)));
    const height = rows.reduce((sum, row) => sum + highest(row) + below, -below);
    return [width, height + 2 * this.edge(key)];
  }

  /** Room above and below for lines that go from one column to the next. */
  edge(key) {
    const { lanes } = this.levels.get(key), { turn, lane } = this.lengths;
    return lanes ? turn + (lanes - 1) * lane : 0;
  }

  put(key, left, top, found) {
    const level = this.levels.get(key), columns = this.columns(key), { lengths } = this;
    let y = top + this.edge(key);
    for (const shelf of level.shelves) {
      let x = left;
      for (const at of shelf) {
        [columns[at].left, columns[at].top] = [x, y];
        x += columns[at].width + lengths.column_gap;
      }
      y += highest(shelf.map((at) => columns[at])) + lengths.shelf_gap;
    }
    for (const [number, at, layer, x] of level.spots) {
      const column = columns[at], [width, height] = this.nodeSize(number, level);
      const middle = column.top + column.tops[layer] + column.heights[layer] / 2;
      const frame = { x: column.left + column.at(x) - width / 2, y: middle - height / 2, width, height };
      found.nodes.set(number, frame);
      this.putBodies(number, frame, found);
    }
    const spots = new Map(level.spots.map(([number, ...spot]) => [number, spot]));
    for (const line of level.lines) {
      found.lines.push({ ...line, path: path(line, spots, columns, found.nodes, lengths) });
    }
  }

  putBodies(number, frame, found) {
    const { head, body_head: bodyHead, inside, body_gap: gap } = this.lengths;
    let x = frame.x + inside;
    for (const key of this.inside.get(number) ?? []) {
      const width = this.size(key)[0] + 2 * inside;
      found.bodies.set(key, { x, y: frame.y + head, width, height: frame.height - head - inside, number });
      this.put(key, x + inside, frame.y + head + bodyHead, found);
      x += width + gap;
    }
  }

  nodeSize(number, level) {
    const { height, head, body_head: bodyHead, inside, body_gap: gap } = this.lengths;
    if (!this.inside.has(number)) return [level.width, height];
    const sizes = this.inside.get(number).map((key) => this.size(key));
    const width = sizes.reduce((sum, [each]) => sum + each + 2 * inside + gap, 2 * inside - gap);
    return [Math.max(width, level.width), head + bodyHead + Math.max(...sizes.map((each) => each[1])) + 2 * inside];
  }

  columns(key) {
    if (!this.held.has(key)) {
      const level = this.levels.get(key), nodes = level.layers.map(() => []), bends = level.layers.map(() => []);
      for (const [number, at, layer, x] of level.spots) nodes[at].push([layer, x, ...this.nodeSize(number, level)]);
      for (const line of level.lines) for (const [at, , x] of line.bends) bends[at].push(x);
      this.held.set(key, level.layers.map(
        (layers, at) => new Column(layers, nodes[at], bends[at], level.width, this.lengths)));
    }
    return this.held.get(key);
  }
}

/** A column's layers, and its x stretched for the boxes that are open in it. */
class Column {
  constructor(layers, nodes, bends, width, { height, layer_gap: gap }) {
    this.left = this.top = this.shift = 0;
    this.heights = new Array(layers).fill(height);
    for (const [layer, , , each] of nodes) this.heights[layer] = Math.max(this.heights[layer], each);
    this.tops = [];
    let y = 0;
    for (const each of this.heights) {
      this.tops.push(y);
      y += each + gap;
    }
    this.height = y - gap;
    const wide = nodes.filter(([, , each]) => each > width)
      .map(([, x, each]) => [x - width / 2, x + width / 2, each / width - 1]);
    const edges = [...new Set(wide.flatMap(([begin, end]) => [begin, end]))].sort((a, b) => a - b);
    // Each strip is as much wider as the widest box in it needs, and what is right of it moves.
    this.strips = edges.slice(1).map((end, at) => [edges[at], end, wide.reduce(
      (most, [a, b, more]) => (a <= edges[at] && end <= b ? Math.max(most, more) : most), 0)]);
    let left = Infinity, right = -Infinity;
    const take = (x, half) => {
      const at = this.at(x);
      left = Math.min(left, at - half);
      right = Math.max(right, at + half);
    };
    for (const [, x, each] of nodes) take(x, each / 2);
    for (const x of bends) take(x, 0);
    this.shift = left < Infinity ? -left : 0;
    this.width = right > -Infinity ? right + this.shift : 0;
  }

  at(x) {
    let moved = x + this.shift;
    for (const [begin, end, more] of this.strips) {
      if (x <= begin) break;
      moved += (Math.min(x, end) - begin) * more;
    }
    return moved;
  }
}

function highest(columns) { return columns.reduce((most, { height }) => Math.max(most, height), 0); }

/** From the lower side of the upper node, through the layers between, to the upper side of the other one. */
function path(line, places, columns, nodes, lengths) {
  const [top, bottom] = line.isBackward ? [line.then, line.first] : [line.first, line.then];
  const above = nodes.get(top), below = nodes.get(bottom);
  const spots = [places.get(top), ...line.bends, places.get(bottom)];
  let x = above.x + above.width / 2 + line.out, y = above.y + above.height, drawn = `M${n(x)} ${n(y)}`;
  for (let at = 1; at < spots.length; at++) {
    const here = spots[at - 1], spot = spots[at], column = columns[here[0]], following = columns[spot[0]];
    const isLast = at === spots.length - 1;
    const xNext = isLast ? below.x + below.width / 2 + line.into : following.left + following.at(spot[2]);
    const yNext = following.top + following.tops[spot[1]];
    const leaves = column.top + column.tops[here[1]] + column.heights[here[1]];
    if (leaves > y + 0.05) drawn += `V${n(leaves)}`;
    if (here[0] === spot[0]) {
      const middle = (leaves + yNext) / 2;
      drawn += `C${n(x)} ${n(middle)} ${n(xNext)} ${n(middle)} ${n(xNext)} ${n(yNext)}`;
    } else {
      const aside = following.left - lengths.column_gap / 2 + line.lane * lengths.lane;
      drawn += around(x, leaves, aside, xNext, yNext, lengths.turn + line.lane * lengths.lane, lengths.round);
    }
    [x, y] = [xNext, yNext];
  }
  return below.y > y + 0.05 ? `${drawn}V${n(below.y)}` : drawn;
}

/** Over to the top of another column: down, to the side, along it, and down again, with round corners. */
function around(x, y, aside, xNext, yNext, reach, round) {
  const low = y + reach, high = yNext - reach;
  const points = [[x, y], [x, low], [aside, low], [aside, high], [xNext, high], [xNext, yNext]];
  let drawn = "";
  for (let at = 1; at < points.length - 1; at++) {
    const corner = points[at];
    const start = toward(corner, points[at - 1], round), end = toward(corner, points[at + 1], round);
    drawn += `L${n(start[0])} ${n(start[1])}Q${n(corner[0])} ${n(corner[1])} ${n(end[0])} ${n(end[1])}`;
  }
  return `${drawn}L${n(xNext)} ${n(yNext)}`;
}

function toward(corner, other, round) {
  const dx = other[0] - corner[0], dy = other[1] - corner[1], length = Math.max(Math.abs(dx), Math.abs(dy), 1e-9);
  const step = Math.min(round, length / 2) / length;
  return [corner[0] + dx * step, corner[1] + dy * step];
}

function n(value) { return String(Math.round(value * 10) / 10); }
