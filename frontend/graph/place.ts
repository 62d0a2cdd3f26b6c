// Where each node, body and line of a graph is, with some boxes open: what kernelscope/views/graph/layout.py does for
// the static picture, line by line, and a test holds the two together. Levels and lengths come from Python.

import type { Graph, Lengths, Level, Line, Place, Spot } from "./wire";

/** A level's key: the number of the node around it, and which of its bodies. */
const keyOf = ([around, body]: Place) => `${around}/${body}`;
const TOP = "-1/0";

/** Where something is, in the picture's pixels. */
export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A line with its path. */
export interface DrawnLine extends Line {
  path: string;
}

/** Where everything is: nodes by number, bodies by key with the node around each, and lines. */
export interface Placed {
  width: number;
  height: number;
  nodes: Map<number, Frame>;
  bodies: Map<string, Frame & { number: number }>;
  lines: DrawnLine[];
}

type Point = readonly [x: number, y: number];

/** A node in a column: its layer and x, its width and height. */
type Sized = [layer: number, x: number, width: number, height: number];

/** Place everything, given which boxes are open. */
export function placed(layout: Graph, opened: Set<number>): Placed {
  const found: Placed = { width: 0, height: 0, nodes: new Map(), bodies: new Map(), lines: [] };
  const making = new Placing(layout, opened);
  if (making.levels.has(TOP)) {
    [found.width, found.height] = making.size(TOP);
    making.put(TOP, 0, 0, found);
  }
  return found;
}

class Placing {
  readonly levels: Map<string, Level>;
  private readonly lengths: Lengths;
  /** The bodies of open boxes, by the box. */
  private readonly inside = new Map<number, string[]>();
  private readonly held = new Map<string, Column[]>();

  constructor({ levels, lengths }: Graph, opened: Set<number>) {
    this.lengths = lengths;
    this.levels = new Map(levels.map((level) => [keyOf(level.place), level]));
    for (const { place, spots } of levels) {
      if (place[0] < 0 || !opened.has(place[0]) || !spots.length) continue;
      this.inside.set(place[0], [...this.inside.get(place[0]) ?? [], keyOf(place)]);
    }
  }

  private level(key: string): Level {
    const found = this.levels.get(key);
    if (!found) throw new Error(`the graph has no body ${key}`);
    return found;
  }

  size(key: string): [number, number] {
    const { column_gap: beside, shelf_gap: below } = this.lengths, columns = this.columns(key);
    const rows = this.level(key).shelves.map((shelf) => shelf.map((at) => columns[at]));
    const width = Math.max(...rows.map((row) => row.reduce((sum, { width: each }) => sum + each + beside, -beside)));
    const height = rows.reduce((sum, row) => sum + highest(row) + below, -below);
    return [width, height + 2 * this.edge(key)];
  }

  /** Room above and below for lines that go from one column to the next. */
  private edge(key: string) {
    const { lanes } = this.level(key), { turn, lane } = this.lengths;
    return lanes ? turn + (lanes - 1) * lane : 0;
  }

  put(key: string, left: number, top: number, found: Placed) {
    const level = this.level(key), columns = this.columns(key), { lengths } = this;
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
    const spots = new Map(level.spots.map(([number, ...spot]): [number, Spot] => [number, spot]));
    for (const line of level.lines) {
      found.lines.push({ ...line, path: path(line, spots, columns, found.nodes, lengths) });
    }
  }

  private putBodies(number: number, frame: Frame, found: Placed) {
    const { head, body_head: bodyHead, inside, body_gap: gap } = this.lengths;
    let x = frame.x + inside;
    for (const key of this.inside.get(number) ?? []) {
      const width = this.size(key)[0] + 2 * inside;
      found.bodies.set(key, { x, y: frame.y + head, width, height: frame.height - head - inside, number });
      this.put(key, x + inside, frame.y + head + bodyHead, found);
      x += width + gap;
    }
  }

  private nodeSize(number: number, level: Level): [number, number] {
    const { height, head, body_head: bodyHead, inside, body_gap: gap } = this.lengths;
    const bodies = this.inside.get(number);
    if (!bodies) return [level.width, height];
    const sizes = bodies.map((key) => this.size(key));
    const width = sizes.reduce((sum, [each]) => sum + each + 2 * inside + gap, 2 * inside - gap);
    return [Math.max(width, level.width), head + bodyHead + Math.max(...sizes.map((each) => each[1])) + 2 * inside];
  }

  private columns(key: string): Column[] {
    let found = this.held.get(key);
    if (!found) {
      const level = this.level(key), nodes = level.layers.map((): Sized[] => []);
      const bends = level.layers.map((): number[] => []);
      for (const [number, at, layer, x] of level.spots) nodes[at].push([layer, x, ...this.nodeSize(number, level)]);
      for (const line of level.lines) for (const [at, , x] of line.bends) bends[at].push(x);
      found = level.layers.map((layers, at) => new Column(layers, nodes[at], bends[at], level.width, this.lengths));
      this.held.set(key, found);
    }
    return found;
  }
}

/** A column's layers, and its x stretched for the boxes that are open in it. */
class Column {
  left = 0;
  top = 0;
  readonly width: number;
  readonly height: number;
  readonly heights: number[];
  readonly tops: number[] = [];
  private shift = 0;
  /** Stretches of x, and how much wider each becomes. */
  private readonly strips: [begin: number, end: number, more: number][];

  constructor(layers: number, nodes: Sized[], bends: number[], width: number, { height, layer_gap: gap }: Lengths) {
    this.heights = new Array(layers).fill(height);
    for (const [layer, , , each] of nodes) this.heights[layer] = Math.max(this.heights[layer], each);
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
    this.strips = edges.slice(1).map((end, at): [number, number, number] => [edges[at], end, wide.reduce(
      (most, [a, b, more]) => (a <= edges[at] && end <= b ? Math.max(most, more) : most), 0)]);
    let left = Infinity, right = -Infinity;
    const take = (x: number, half: number) => {
      const at = this.at(x);
      left = Math.min(left, at - half);
      right = Math.max(right, at + half);
    };
    for (const [, x, each] of nodes) take(x, each / 2);
    for (const x of bends) take(x, 0);
    this.shift = left < Infinity ? -left : 0;
    this.width = right > -Infinity ? right + this.shift : 0;
  }

  at(x: number) {
    let moved = x + this.shift;
    for (const [begin, end, more] of this.strips) {
      if (x <= begin) break;
      moved += (Math.min(x, end) - begin) * more;
    }
    return moved;
  }
}

function highest(columns: Column[]) { return columns.reduce((most, { height }) => Math.max(most, height), 0); }

/** From the lower side of the upper node, through the layers between, to the upper side of the other one. */
function path(
  line: Line, places: Map<number, Spot>, columns: Column[], nodes: Map<number, Frame>, lengths: Lengths,
): string {
  const [top, bottom] = line.isBackward ? [line.then, line.first] : [line.first, line.then];
  const above = nodes.get(top), below = nodes.get(bottom), begin = places.get(top), end = places.get(bottom);
  if (!above || !below || !begin || !end) return "";
  const spots = [begin, ...line.bends, end];
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
function around(
  x: number, y: number, aside: number, xNext: number, yNext: number, reach: number, round: number,
): string {
  const low = y + reach, high = yNext - reach;
  const points: Point[] = [[x, y], [x, low], [aside, low], [aside, high], [xNext, high], [xNext, yNext]];
  let drawn = "";
  for (let at = 1; at < points.length - 1; at++) {
    const corner = points[at];
    const start = toward(corner, points[at - 1], round), end = toward(corner, points[at + 1], round);
    drawn += `L${n(start[0])} ${n(start[1])}Q${n(corner[0])} ${n(corner[1])} ${n(end[0])} ${n(end[1])}`;
  }
  return `${drawn}L${n(xNext)} ${n(yNext)}`;
}

function toward(corner: Point, other: Point, round: number): Point {
  const dx = other[0] - corner[0], dy = other[1] - corner[1], length = Math.max(Math.abs(dx), Math.abs(dy), 1e-9);
  const step = Math.min(round, length / 2) / length;
  return [corner[0] + dx * step, corner[1] + dy * step];
}

function n(value: number) { return String(Math.round(value * 10) / 10); }
