// What a cell of a card's table is sorted by: a number with its unit, or a text.

export type Order = "ascending" | "descending";

const UNITS: Record<string, number> = {
  "": 1, "%": 1, ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30,
};
const MISSING = "–";
/** As kernelscope/units.py writes them; a range, such as 15 to 16, begins with one. */
const NUMBER = /^(?:< )?(-?[\d,]+(?:\.\d+)?)(?: (%|ns|µs|ms|s|B|KiB|MiB|GiB))?(?: to .*)?$/;

/** The number that a text stands for, in its base unit; the text where it is none; null for what is missing. */
export function valueOf(text: string): number | string | null {
  if (!text || text === MISSING) return null;
  const found = NUMBER.exec(text);
  if (!found) return text;
  const value = Number(found[1].replaceAll(",", "")) * UNITS[found[2] ?? ""];
  // Less than the least that is written.
  return text.startsWith("<") ? value / 2 : value;
}
