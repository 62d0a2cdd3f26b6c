// What a feature counts by line of code, such as samples of warps: each line's share, and of which categories.

import type { LineShare, Shares } from "../code/text";
import { element } from "../shared/dom";
import { count, percent } from "../shared/text";
import type { LineCounts } from "./wire";

/** So many categories of a line are named where a pointer is on its bar. */
const MAX_NAMED = 6;

/** What the code view draws beside the lines: a bar as wide as the line's share, its parts in the groups' colors. */
export function sharesOf({ title, noun, total, groups, categories, lines, counts }: LineCounts): Shares {
  const shares = new Map<number, LineShare>(), largest = Math.max(1, ...counts.map(sum));
  lines.forEach((line, index) => {
    const ofLine = sum(counts[index]);
    const ranked = counts[index].map((value, category) => ({ value, category })).filter(({ value }) => value > 0)
      .sort((one, other) => other.value - one.value);
    const byGroup = new Map<string, number>();
    for (const { value, category } of ranked) {
      const group = categories[category][1];
      byGroup.set(group, (byGroup.get(group) ?? 0) + value);
    }
    // In the order of the groups, the same on each line.
    const parts: LineShare["parts"] = groups.filter(([group]) => byGroup.has(group))
      .map(([group, color]) => [color, byGroup.get(group)! / ofLine]);
    const named = ranked.slice(0, MAX_NAMED).map(({ value, category }) => {
      const [name, , label, meaning] = categories[category], words = name.replaceAll("_", " ");
      return `${percent(value / ofLine)} ${label === name ? words : `${label} (${words})`}${meaning ? `: ${meaning}` : ""}`;
    });
    const text = [`${percent(ofLine / total)} of ${count(total)} ${noun}, ${count(ofLine)} here`, ...named].join("\n");
    shares.set(line, { text: percent(ofLine / total), width: ofLine / largest, parts, title: text });
  });
  return { title, lines: shares };
}

/** What the colors of the bars mean: those that there are. */
export function legendOf({ title, groups, categories, counts }: LineCounts): HTMLElement {
  const used = new Set(categories.filter((_, index) => counts.some((row) => row[index])).map(([, group]) => group));
  const legend = element("span", "ksi-legend", `${title}:`);
  for (const [group, color, label] of groups) {
    if (!used.has(group)) continue;
    const key = element("i", "ksi-key");
    key.style.background = color;
    legend.append(" ", element("span", "", key, label));
  }
  return legend;
}

function sum(values: number[]) { return values.reduce((total, value) => total + value, 0); }
