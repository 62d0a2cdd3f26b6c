// What comes before and after a node, and what lies beside it: for highlighting and for the arrow keys.

/** Edges of a graph by node; boxes count as what is in them. */
export class Relations {
  constructor({ levels, nodes }) {
    this.nodes = nodes;
    this.before = new Map();
    this.after = new Map();
    for (const { lines } of levels) {
      for (const { first, then } of lines) {
        push(this.after, first, then);
        push(this.before, then, first);
      }
    }
    this.inside = new Map();
    nodes.forEach(({ around }, number) => around >= 0 && push(this.inside, around, number));
  }

  /** The boxes around a node, from the inside out. */
  around(number) {
    const found = [];
    for (let at = this.nodes[number].around; at >= 0; at = this.nodes[at].around) found.push(at);
    return found;
  }

  /** All nodes that must have run before it, and all that wait for it, directly or not. */
  of(number) {
    const before = new Set(), after = new Set();
    for (const each of [number, ...this.around(number)]) {
      reach(each, this.before, before);
      reach(each, this.after, after);
    }
    for (const found of [before, after]) for (const each of [...found]) reach(each, this.inside, found);
    return { before, after };
  }

  /** The nearest shown node in a direction, such as [0, 1] for down; what an edge leads to comes before the others. */
  beside(number, [dx, dy], frames) {
    const here = middle(frames.get(number)), edges = dy > 0 ? this.after : this.before;
    const linked = dy ? (edges.get(number) ?? []).filter((each) => frames.has(each)) : [];
    let best = null, least = Infinity;
    for (const each of linked.length ? linked : frames.keys()) {
      if (each === number) continue;
      const there = middle(frames.get(each)), along = (there.x - here.x) * dx + (there.y - here.y) * dy;
      const across = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
      if (!linked.length && along <= 1) continue;
      const cost = Math.abs(along) + across * (linked.length ? 1 : 3);
      if (cost < least) [best, least] = [each, cost];
    }
    return best;
  }
}

function reach(from, edges, found) {
  const waiting = [from];
  while (waiting.length) {
    for (const next of edges.get(waiting.pop()) ?? []) {
      if (found.has(next) || next === from) continue;
      found.add(next);
      waiting.push(next);
    }
  }
}

function push(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}

function middle({ x, y, width, height }) { return { x: x + width / 2, y: y + Math.min(height, 48) / 2 }; }
