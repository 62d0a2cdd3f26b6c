// Explanations, which are titles: the browser shows them where the pointer is, and this where the focus is.

import { type Undoing, closest, element, focusable, rove } from "../shared/dom";

/** What is explained, but is no link: the first of a group takes the focus, arrows go on. */
const GROUPS: [group: string, items: string][] = [
  [".ks-figures", "span[title]"], [".ks-legend", "div[title]"], ["thead tr", ".ks-sort, th[title]:not(:has(.ks-sort))"],
];
let last = 0;

/** Show a card's explanations with the focus too, and those of columns at their numbers. */
export function explain(card: HTMLElement, undoing: Undoing): void {
  const tip = element("div", "ks-tip");
  tip.id = `ks-tip-${last += 1}`;
  tip.setAttribute("role", "tooltip");
  tip.setAttribute("popover", "manual");
  card.append(tip);
  for (const [group, items] of GROUPS) {
    for (const each of card.querySelectorAll<HTMLElement>(group)) {
      const all = [...each.querySelectorAll<HTMLElement>(items)];
      all.forEach((item, at) => { focusable(item, at ? -1 : 0); });
      undoing.listen(each, "keydown", (event) => { rove(event, all, { horizontal: true }); });
      undoing.add(() => { for (const item of all) item.removeAttribute("tabindex"); });
    }
  }
  const hide = () => {
    if (tip.matches(":popover-open")) tip.hidePopover();
    card.querySelector(`[aria-describedby="${tip.id}"]`)?.removeAttribute("aria-describedby");
  };
  undoing.add(hide, () => tip.remove());
  undoing.listen(card, "focusin", (event) => {
    hide();
    const at = event.target as HTMLElement;
    const said = closest(at, "[title]") ?? at.querySelector<HTMLElement>("[title]");
    if (!said?.title || !card.contains(said) || !at.matches(":focus-visible") || !tip.showPopover) return;
    tip.textContent = said.title;
    at.setAttribute("aria-describedby", tip.id);
    tip.showPopover();
    place(tip, at.getBoundingClientRect());
  });
  undoing.listen(card, "focusout", hide);
  undoing.listen(card, "keydown", (event) => {
    if (event.key !== "Escape" || !tip.matches(":popover-open")) return;
    event.stopPropagation();
    hide();
  });
  undoing.listen(card, "pointerover", (event) => {
    const cell = closest(event.target, "td:not([title])") as HTMLTableCellElement | null;
    const head = cell?.closest("table")?.tHead?.rows[0]?.cells[cell.cellIndex];
    if (cell && head?.title && closest(event.target, "[title]") === null) cell.title = head.title;
  });
}

/** Below an element, or above it where there is no room. */
function place(tip: HTMLElement, at: DOMRect) {
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(at.left, innerWidth - width - 4))}px`;
  tip.style.top = `${at.bottom + 4 + height > innerHeight ? Math.max(4, at.top - height - 4) : at.bottom + 4}px`;
}
