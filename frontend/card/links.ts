// The links of a card: into its timeline, to the inspector, to parts of the card, and to the cards of other cells.

import { Undoing, closest, copyText, element, keepShortcutsAway } from "../shared/dom";
import { inspectHere, point } from "../shared/places";

/** What a card's links do beyond the card; what is missing has no link. */
export interface Links {
  /** Show a row of one of the recording's tables in the timeline; whether there is such an event. */
  go?(table: string, row: number): boolean;
  /** Search the timeline for a name, or for that of a kernel. */
  search?(name: string | number): void;
  /** Search the timeline for what some lines of code made, by their rows in `lines`. */
  lines?(rows: number[]): void;
  /** Mark the card's line of code with a row of `lines`, null for none, and with `isShown` bring it into sight; whether
      the card has it. Set by the card. */
  mark?(row: number | null, isShown?: boolean): boolean;
  /** Open an inspector at a kernel or a specialization beside the timeline; whether that can be done. */
  open?(key: string): Promise<boolean>;
  /** Show the flame graph live in an element, in place of its picture; returns the end of it. */
  flame?(place: HTMLElement): () => void;
}

/** Make the links of a card, or of what stands for an inspector. */
export function linkNames(card: HTMLElement, links: Links, undoing: Undoing): void {
  for (const name of card.querySelectorAll<HTMLElement>("[data-ks-at]")) {
    if (!leads(card, name, links)) continue;
    name.setAttribute("role", "link");
    name.tabIndex = 0;
    keepShortcutsAway(name);
    undoing.add(() => { for (const each of ["role", "tabindex"]) name.removeAttribute(each); });
  }
  const follow = (event: Event) => {
    const name = closest(event.target, "[data-ks-at][role=link]");
    if (!name) return;
    event.preventDefault();
    void to(card, name, links);
  };
  undoing.listen(card, "click", follow);
  undoing.listen(card, "keydown", (event) => { if (event.key === "Enter" || event.key === " ") follow(event); });
}

/** Let the timeline mark the lines of code of a card. */
export function markLines(card: HTMLElement, links: Links, undoing: Undoing): void {
  const lines = [...card.querySelectorAll<HTMLElement>('[data-ks-at^="line:"]')];
  links.mark = (row, isShown = false) => {
    const found = row === null ? undefined : lines.find((each) => rowsOf(each).includes(row));
    for (const each of card.querySelectorAll(".ks-marked")) each.classList.remove("ks-marked");
    const line = found?.closest<HTMLElement>("tr");
    line?.classList.add("ks-marked");
    if (found && isShown) point(found);
    return found !== undefined;
  };
  undoing.add(() => { links.mark?.(null); delete links.mark; });
}

/** The rows of `lines` that a link names. */
function rowsOf(line: HTMLElement): number[] { return placeOf(line)[1].split(",").map(Number); }

/** What a link names, and which. */
function placeOf(name: HTMLElement): [kind: string, key: string] {
  const at = name.dataset.ksAt ?? "", cut = at.indexOf(":");
  return [at.slice(0, cut), at.slice(cut + 1)];
}

/** Whether a link leads anywhere in this page. */
function leads(card: HTMLElement, name: HTMLElement, links: Links): boolean {
  const [kind, key] = placeOf(name);
  if (kind === "inspect" || kind === "card") return true;
  if (kind === "line") return links.lines !== undefined;
  return kind === "part" ? partOf(card, key) !== null : links.go !== undefined;
}

function partOf(card: HTMLElement, key: string) {
  return card.querySelector<HTMLDetailsElement>(`details[data-ks-part="${CSS.escape(key)}"]`);
}

async function to(card: HTMLElement, name: HTMLElement, links: Links) {
  const [kind, key] = placeOf(name);
  if (kind === "part") {
    const part = partOf(card, key);
    if (part) {
      part.open = true;
      point(part.querySelector("summary") ?? part);
    }
  } else if (kind === "inspect") {
    const isShown = inspectHere(card, key) || await links.open?.(key);
    if (!isShown) await tell(card, name, `%kernelscope inspect ${kernelOf(name)}`);
  } else if (kind === "card") {
    const root = card.getRootNode() as ParentNode & Node;
    const other = root.querySelector<HTMLElement>(`.kscope[data-ks-cell="${CSS.escape(key)}"]`);
    if (other) point(other);
    else await tell(card, name, name.dataset.ksCommand ?? "");
  } else if (kind === "line") links.lines?.(rowsOf(name));
  else if (kind === "name") links.search?.(key);
  else if (kind === "kernels") links.search?.(Number(key));
  else if (!links.go?.(kind, Number(key))) links.search?.("");
}

/** The kernel that a link is about, as %kernelscope inspect finds it: by the last part of its name. */
function kernelOf(link: HTMLElement): string {
  const row = link.closest("tr, .ks-finding")?.querySelector<HTMLElement>(".ks-name")
    ?? link.closest("details")?.querySelector<HTMLElement>("summary .ks-name");
  return row?.title.split(".").at(-1) ?? "";
}

/** Say which line of a notebook shows what is not in this page, and put it into the clipboard. */
async function tell(card: HTMLElement, link: HTMLElement, command: string) {
  const isCopied = await copyText(command);
  card.querySelector(".ks-command")?.remove();
  const said = element("div", "ks-command", "It is not in this page; run ", element("code", "", command.trim()),
    isCopied ? " in a cell: the line is in the clipboard." : " in a cell.");
  said.setAttribute("role", "status");
  (link.closest(".ks-x, .ks-finding") ?? link).after(said);
}
