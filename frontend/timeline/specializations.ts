// What a timeline has of a specialization, which other views of the page know by its key.

import type { Model } from "./model";
import type { TimelineEvent } from "./view";

const OWNERS = new Set<string>(["launches", "compiles", "gpu"]);

/** The key of the specialization that an event is of, or nothing. */
export function keyOf(model: Model, { table, id }: TimelineEvent): string | undefined {
  if (!OWNERS.has(table)) return undefined;
  const row = model.table(table).at("specialization_id", id);
  return row < 0 ? undefined : model.facts.specializations[row]?.key;
}

/** The first compile and the first launch of a specialization, by row; -1 where there is none. */
export function firstOf(model: Model, key: string): { compile: number; launch: number } {
  const row = model.facts.specializations.findIndex((each) => each.key === key);
  const first = (table: "compiles" | "launches") => (
    row < 0 ? -1 : model.table(table).col("specialization_id").indexOf(row));
  return { compile: first("compiles"), launch: first("launches") };
}
