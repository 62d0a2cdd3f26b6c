// What kernelscope/views/graph/widget.py packs: the nodes of a graph and where the layout put them.

/** A body: the number of the node around it, -1 for the graph itself, and which of its bodies. */
export type Place = [around: number, body: number];

/** A column, a layer in it, and x. */
export type Spot = [column: number, layer: number, x: number];

export interface Lengths {
  height: number;
  layer_gap: number;
  column_gap: number;
  shelf_gap: number;
  lane: number;
  head: number;
  body_head: number;
  inside: number;
  body_gap: number;
  turn: number;
  round: number;
}

export interface Style {
  text_x: number;
  name_y: number;
  detail_y: number;
  lone_y: number;
  sign_x: number;
  sign_y: number;
  size: number;
  detail_size: number;
}

export interface Kind {
  word: string;
  plural: string;
  color: string;
  sign: string;
}

/** Kind, the node around it, whether it has bodies, both lines, time, share, the line of an open box, and all facts. */
export type PackedNode = [
  kind: string, around: number, isBox: boolean, title: string, detail: string, time: string, share: number | null,
  line: string, facts: [label: string, text: string][],
];

export type PackedLine = [
  first: number, then: number, out: number, into: number, lane: number, isBackward: boolean, bends: Spot[],
];

interface Body {
  place: Place;
  name: string;
  width: number;
  shelves: number[][];
  /** How many layers each column has. */
  layers: number[];
  lanes: number;
  spots: [number: number, ...Spot][];
}

interface Shared {
  title: string;
  about: string;
  notes: string[];
  lengths: Lengths;
  style: Style;
  kinds: Record<string, Kind>;
  /** Paths of nodes' outlines, by kind and width. */
  outlines: Record<string, string>;
  opened: number[];
}

export interface Packed extends Shared {
  nodes: PackedNode[];
  levels: (Body & { lines: PackedLine[] })[];
}

// The same with names, as `read` makes it.

export interface GraphNode {
  kind: string;
  around: number;
  isBox: boolean;
  title: string;
  detail: string;
  time: string;
  share: number | null;
  line: string;
  facts: [label: string, text: string][];
  /** What of it was laid out: undefined where it was not. */
  width: number | undefined;
  isDrawn: boolean;
  canOpen: boolean;
  /** What the search looks through. */
  key: string;
}

export interface Line {
  first: number;
  then: number;
  out: number;
  into: number;
  lane: number;
  isBackward: boolean;
  bends: Spot[];
}

export interface Level extends Body {
  lines: Line[];
}

export interface Graph extends Shared {
  nodes: GraphNode[];
  levels: Level[];
}
