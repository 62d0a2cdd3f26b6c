// The frame of a view, and what is on top of the timeline and of graphs.

import { element } from "./dom";
import STYLE from "./view.css";

/** The root of a view, with its style sheets; `label` is what readers of the screen call it. */
export function frame(name: string, label: string, style: string): HTMLElement {
  const root = element("div", `ksv ${name}`, element("style", "", STYLE + style));
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", label);
  return root;
}

/** A field that searches. */
export function searchField(name: string, placeholder: string, label: string): HTMLInputElement {
  const field = element("input", name);
  field.type = "search";
  field.placeholder = placeholder;
  field.setAttribute("aria-label", label);
  return field;
}

/** Keys with what they do, hidden at first. */
export function keysOf(name: string, keys: readonly (readonly string[])[]): HTMLElement {
  const made = element("div", name, ...keys.flatMap(([key, does]) => [element("kbd", "", key), element("span", "", does)]));
  made.hidden = true;
  return made;
}
