// The table of cells in a notebook: the HTML beside this view is sorted, and its rows lead to the cards of the page.

import { followCard } from "./card";

export const drawsNothing = true;

/** Bring the table to life; nothing is drawn in place of it. */
export function mount(host: HTMLElement): { ready: Promise<object>; destroy(): void } {
  return { ready: Promise.resolve({}), destroy: followCard(host, {}, ".kscope.ks-cells") };
}
