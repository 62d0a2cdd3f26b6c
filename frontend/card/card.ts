// A card in a live page: folds that are remembered, tables that are sorted, explanations with the focus, and links into
// the timeline, the inspector and other cards.
//
// The card is HTML that kernelscope/views/card/html.py writes, and is whole without this: what it names has
// data-ks-at, whose forms kernelscope/views/card/sections.py lists.

import STYLE from "./card.css";
import { Undoing, element, keepShortcutsAway } from "../shared/dom";
import { type Links, linkNames, markLines } from "./links";
import { type Order, valueOf } from "./sort";
import { explain } from "./tips";

/** The reader's choice of what is folded lasts as long as the page. */
const FOLDS = "kernelscope:folds";
/** Cards, and what stands for an inspector. */
export const CARDS = ".kscope:has(.ks-sections)", INSPECTORS = ".kscope:has([data-ks-key])";

/** Bring the card that belongs to a view to life: now, or when the notebook has put it into the page. */
export function followCard(host: HTMLElement, links: Links, which = CARDS): () => void {
  const undoing = new Undoing(), area = outputOf(host);
  const found = () => {
    const cards = still(area, which);
    // Of several the one above the view.
    const above = cards.filter((each) => each.compareDocumentPosition(host) & Node.DOCUMENT_POSITION_FOLLOWING);
    const card = above.at(-1) ?? cards[0];
    if (!card) return false;
    for (const each of [card, ...still(area, INSPECTORS)]) undoing.add(enliven(each, links));
    return true;
  };
  if (!found()) {
    const watch = new MutationObserver(() => { if (found()) watch.disconnect(); });
    watch.observe(area, { childList: true, subtree: true });
    undoing.add(() => watch.disconnect());
  }
  return () => undoing.run();
}

/** What has no behavior yet. */
function still(area: ParentNode, which: string): HTMLElement[] {
  return [...area.querySelectorAll<HTMLElement>(`${which}:not([data-ks-live])`)];
}

/** The output that a view is in, of Jupyter or of marimo, which has views in trees of their own; else the page. */
function outputOf(host: HTMLElement): ParentNode & Node {
  const root = host.getRootNode();
  const area = host.closest(".jp-OutputArea, .output-area");
  return area ?? (root instanceof ShadowRoot ? outputOf(root.host as HTMLElement) : root as ParentNode & Node);
}

/** Give a card its behavior; returns the end of it. */
export function enliven(card: HTMLElement, links: Links): () => void {
  const undoing = new Undoing(), style = element("style", "", STYLE);
  card.append(style);
  card.dataset.ksLive = "";
  undoing.add(() => style.remove(), () => { delete card.dataset.ksLive; });
  rememberFolds(card, undoing);
  sortTables(card, undoing);
  linkNames(card, links, undoing);
  if (card.matches(CARDS)) markLines(card, links, undoing);
  explain(card, undoing);
  showFlames(card, links, undoing);
  return () => undoing.run();
}

/** Show a card's flame graph live once its part is unfolded. */
function showFlames(card: HTMLElement, { flame }: Links, undoing: Undoing) {
  const place = card.querySelector<HTMLElement>(".ks-flame"), part = place?.closest("details");
  if (!place || !part || !flame) return;
  const show = () => { if (part.open && !place.dataset.ksLive) {
    place.dataset.ksLive = "";
    undoing.add(flame(place), () => { delete place.dataset.ksLive; });
  } };
  undoing.listen(part, "toggle", show);
  show();
}

function folds(): Record<string, boolean> {
  try {
    return JSON.parse(sessionStorage.getItem(FOLDS) ?? "{}") as Record<string, boolean>;
  } catch { // a page that may keep nothing, or what another page kept
    return {};
  }
}

function rememberFolds(card: HTMLElement, undoing: Undoing) {
  const parts = [...card.querySelectorAll<HTMLDetailsElement>("details[data-ks-part]")], known = folds();
  for (const part of parts) {
    const key = part.dataset.ksPart ?? "";
    if (key in known) part.open = known[key];
    // A click, not the event "toggle": that also comes where a script opens it.
    const summary = part.querySelector("summary");
    if (!summary) continue;
    keepShortcutsAway(summary);
    undoing.listen(summary, "click", () => {
      try {
        sessionStorage.setItem(FOLDS, JSON.stringify({ ...folds(), [key]: !part.open }));
      } catch { /* It is forgotten with the page. */ }
    });
  }
}

/** Rows that are sorted together: those of a table's body, and with it those of the table that has its further rows. */
interface Sortable {
  bodies: { body: HTMLTableSectionElement; size: number }[];
  rows: HTMLTableRowElement[];
}

function sortTables(card: HTMLElement, undoing: Undoing) {
  const tables = [...card.querySelectorAll<HTMLTableElement>("table.ks-table")];
  for (const [at, table] of tables.entries()) {
    if (table.dataset.ksRest !== undefined) continue;
    const next = tables[at + 1], rest = next?.dataset.ksRest !== undefined ? next : null;
    const sortables = sortablesOf(table, rest);
    const heads = [table, rest].flatMap((each) => each ? [...each.querySelectorAll<HTMLTableCellElement>("thead th")] : []);
    if (!sortables.length) continue;
    const put = (order: Order | null, column: number) => { for (const each of sortables) place(each, order, column); };
    for (const head of heads) {
      const column = head.cellIndex;
      const isPhase = sortables.some(({ rows }) => rows.some((row) => row.cells[column]?.classList.contains("ks-phase")));
      if (!head.textContent || isPhase) continue;
      const press = element("button", "ks-sort", ...head.childNodes);
      press.type = "button";
      head.append(press);
      undoing.listen(press, "click", () => {
        const order = nextOrder(head);
        for (const each of heads) {
          if (order && each.cellIndex === column) each.setAttribute("aria-sort", order);
          else each.removeAttribute("aria-sort");
        }
        put(order, column);
      });
      undoing.add(() => {
        head.removeAttribute("aria-sort");
        press.replaceWith(...press.childNodes);
      });
    }
    undoing.add(() => put(null, 0));
  }
}

function sortablesOf(table: HTMLTableElement, rest: HTMLTableElement | null): Sortable[] {
  const bodies = [...table.tBodies, ...rest?.tBodies ?? []].map((body) => ({ body, size: body.rows.length }));
  const groups = rest ? [bodies] : bodies.map((each) => [each]);
  return groups.map((group) => ({ bodies: group, rows: group.flatMap(({ body }) => [...body.rows]) }))
    .filter(({ rows }) => rows.length > 1);
}

/** Put rows in order, or as they were: each body keeps as many as it had, so that the first ones are those in sight. */
function place({ bodies, rows }: Sortable, order: Order | null, column: number) {
  const all = order ? sorted(rows, column, order) : rows;
  let from = 0;
  for (const { body, size } of bodies) {
    const width = body.closest("table")?.tHead?.rows[0]?.cells.length ?? 0;
    for (const row of all.slice(from, from + size)) {
      // The table of further rows has no bars.
      for (const cell of row.cells) cell.hidden = cell.cellIndex >= width;
      body.append(row);
    }
    from += size;
  }
}

/** From the largest, from the smallest, and as it was. */
function nextOrder(head: Element): Order | null {
  const now = head.getAttribute("aria-sort");
  return now === "descending" ? "ascending" : now === "ascending" ? null : "descending";
}

function sorted(rows: HTMLTableRowElement[], column: number, order: Order): HTMLTableRowElement[] {
  const keys = new Map(rows.map((row) => [row, valueOf(firstLine(row.cells[column]))]));
  const sign = order === "descending" ? -1 : 1;
  return [...rows].sort((left, right) => {
    const [a, b] = [keys.get(left), keys.get(right)];
    // What was not recorded is last, whichever the order.
    if (a === null || b === null || a === undefined || b === undefined) return Number(a === null) - Number(b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  });
}

/** A cell's own text, without the lines below it. */
function firstLine(cell: HTMLTableCellElement | undefined): string {
  if (!cell) return "";
  const own = [...cell.childNodes].filter((node) => !(node instanceof Element && node.matches("small, .ks-go")));
  return own.map((node) => node.textContent ?? "").join("").trim();
}
