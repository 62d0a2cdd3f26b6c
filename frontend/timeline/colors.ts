// Colors of the timeline: the card's for phases, and one for each kernel's name.

import { COLORS, KERNEL_COLORS, PHASE_COLORS } from "../shared/generated";
import type { Color, Theme } from "../shared/theme";
import type { Model } from "./model";
import type { TableName } from "./wire";

const HEX = /^#[0-9a-f]{6}$/i;

/** A function from a row of a table to its color; it looks each color up once. Untrusted colors are checked. */
export function colorsOf(model: Model, theme: Theme, table: TableName): (row: number) => Color {
  const held = model.table(table), color = (hex: string) => theme.color(hex);
  if (table === "gpu") {
    const kinds = held.col("kind"), names = held.col("name"), palette = KERNEL_COLORS.map(color);
    const others: Record<string, string> = { memset: COLORS.memset, graph: COLORS.graph };
    const ofKind = (kind: string) => (kind === "kernel" ? null : color(others[kind] ?? COLORS.copy));
    const byKind = model.words["gpu.kind"].map(ofKind);
    return (row) => byKind[kinds[row]] ?? palette[Math.max(0, names[row]) % palette.length];
  }
  if (table === "ranges") {
    const own = held.col("color");
    const found = model.words["ranges.color"].map((each) => color(HEX.test(each) ? each : COLORS.range));
    const usual = color(COLORS.range);
    return (row) => found[own[row]] ?? usual;
  }
  if (table === "calls") {
    const sources = held.col("source"), found = [COLORS.call, COLORS.wait, COLORS.asking].map(color);
    return (row) => found[sources[row]];
  }
  if (table === "builds") {
    const outcomes = held.col("outcome"), hit = model.words["builds.outcome"].indexOf("hit");
    const [found, built] = [COLORS.call, COLORS.compile].map(color);
    return (row) => (outcomes[row] === hit ? found : built);
  }
  const only = color({
    cells: COLORS.cell, compiles: COLORS.compile, passes: COLORS.pass, graphs: COLORS.graph, events: COLORS.event,
    launches: PHASE_COLORS[0], collections: COLORS.garbage, samples: COLORS.sample,
  }[table]);
  return () => only;
}
