// The samples of warps beside lines of code: what share of a kernel's each line has, and of which stall reasons.

import type { LineShare, Shares } from "../code/text";
import { element } from "../shared/dom";
import { STALL_COLORS } from "../shared/generated";
import { count, percent } from "../shared/text";
import type { Samples } from "./wire";

/** So many reasons of a line are named where a pointer is on its bar. */
const MOST_NAMED = 6;

/** What the code view draws beside the lines: a bar as wide as the line's share, its parts in the reasons' colors. */
export function sharesOf({ total, reasons, lines, counts }: Samples): Shares {
  const found = new Map<number, LineShare>(), most = Math.max(1, ...counts.map(sum));
  lines.forEach((line, at) => {
    const own = sum(counts[at]), parts: LineShare["parts"] = [];
    const ranked = counts[at].map((samples, reason) => ({ samples, reason })).filter((each) => each.samples > 0)
      .sort((one, other) => other.samples - one.samples);
    const byGroup = new Map<string, number>();
    for (const { samples, reason } of ranked) {
      const group = reasons[reason][1];
      byGroup.set(group, (byGroup.get(group) ?? 0) + samples);
    }
    // In the order of the colors, the same on each line.
    for (const [group, color] of Object.entries(STALL_COLORS)) {
      const samples = byGroup.get(group);
      if (samples) parts.push([color, samples / own]);
    }
    const named = ranked.slice(0, MOST_NAMED).map(({ samples, reason }) => {
      const [name, , label, meaning] = reasons[reason], words = name.replaceAll("_", " ");
      return `${percent(samples / own)} ${label === name ? words : `${label} (${words})`}${meaning ? `: ${meaning}` : ""}`;
    });
    const title = [`${percent(own / total)} of ${count(total)} samples, ${count(own)} here`, ...named].join("\n");
    found.set(line, { text: percent(own / total), width: own / most, parts, title });
  });
  return { title: "samples of warps", lines: found };
}

/** What the stall reasons of a color are about. */
const GROUPS: Record<string, string> = {
  memory: "memory", shared: "shared memory, special functions", barrier: "barriers", math: "math", code: "its code",
  other: "other stalls", ready: "ready, another warp issued", issued: "issuing",
};

/** What the colors of the bars mean: those that there are. */
export function legendOf({ reasons, counts }: Samples): HTMLElement {
  const used = new Set(reasons.filter((_, at) => counts.some((row) => row[at])).map(([, group]) => group));
  const made = element("span", "ksi-legend", "samples of warps:");
  for (const [group, color] of Object.entries(STALL_COLORS)) {
    if (!used.has(group)) continue;
    const key = element("i", "ksi-key");
    key.style.background = color;
    made.append(" ", element("span", "", key, GROUPS[group] ?? group));
  }
  return made;
}

function sum(values: number[]) { return values.reduce((total, each) => total + each, 0); }
