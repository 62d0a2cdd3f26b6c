// The kernels: a list with search and sort, of which one is chosen.

import { closest, element, focusable, rove } from "../shared/dom";
import { clean, count, counted } from "../shared/text";
import { known, reveal, time } from "./elements";
import type { Kernel } from "./wire";

const SORTS: Record<string, [label: string, order: (a: Kernel, b: Kernel) => number]> = {
  launches: ["launches", (a, b) => b.launches - a.launches || b.compile_ns - a.compile_ns],
  compile: ["compile time", (a, b) => b.compile_ns - a.compile_ns],
  regs: ["registers", (a, b) => (b.regs ?? -1) - (a.regs ?? -1)],
  name: ["name", (a, b) => shortKernelName(a.name).localeCompare(shortKernelName(b.name))],
};
// So many are in the page at once; the search finds the others.
const MOST_KERNELS = 400;

/** A kernel's name without what it is qualified with; its place says the rest. */
export function shortKernelName(name: string): string { return clean(name.split(".").at(-1)); }

export class KernelList {
  readonly root: HTMLElement;
  private kernels: Kernel[] = [];
  private key: string | undefined;
  private readonly search = focusable(element("input", "ksi-search"));
  private readonly sort = focusable(element("select", "ksi-select"));
  private readonly list = element("div", "ksi-kernels");
  private readonly about = element("div", "ksi-about");

  /** `chosen` is told of each choice that the user makes. */
  constructor(private readonly chosen: (key: string) => void) {
    Object.assign(this.search, { type: "search", placeholder: "Search kernels", spellcheck: false });
    this.search.setAttribute("aria-label", "search kernels by name or place");
    this.sort.setAttribute("aria-label", "sort kernels by");
    for (const [value, [label]] of Object.entries(SORTS)) {
      const option = element("option", "", `by ${label}`);
      option.value = value;
      this.sort.append(option);
    }
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "kernels");
    const sorting = element("div", "ksi-sorting", this.search, this.sort);
    this.root = element("div", "ksi-left", sorting, this.list, this.about);
    this.search.addEventListener("input", () => this.draw());
    this.sort.addEventListener("change", () => this.draw());
    this.search.addEventListener("keydown", (event) => this.searching(event));
    this.list.addEventListener("keydown", (event) => this.moving(event));
    this.list.addEventListener("click", (event) => this.pick(closest(event.target, ".ksi-kernel")));
  }

  show(kernels: Kernel[], key?: string) {
    this.kernels = kernels;
    this.key = key;
    this.root.hidden = kernels.length < 2;
    this.draw();
  }

  private shown() {
    const sought = this.search.value.trim().toLowerCase();
    const found = this.kernels.filter((each) => `${each.name}\n${each.place}`.toLowerCase().includes(sought));
    return found.sort(SORTS[this.sort.value][1]);
  }

  private draw() {
    const shown = this.shown(), top = this.list.scrollTop, hadFocus = this.list.contains(document.activeElement);
    this.list.replaceChildren(...shown.slice(0, MOST_KERNELS).map((each) => this.option(each)));
    const tabbed = this.options().find((each) => each.dataset.key === this.key) ?? this.options()[0];
    if (tabbed) tabbed.tabIndex = 0;
    if (hadFocus) tabbed?.focus({ preventScroll: true });
    this.list.scrollTop = top;
    if (!shown.length) this.list.append(element("div", "ksi-empty", "no kernel has that in its name"));
    const isAll = shown.length === this.kernels.length;
    this.about.textContent = isAll ? counted(shown.length, "kernel") : `${count(shown.length)} of ${
      counted(this.kernels.length, "kernel")}`;
    if (shown.length > MOST_KERNELS) this.about.textContent += `; the first ${MOST_KERNELS} are listed`;
  }

  private option(kernel: Kernel) {
    const numbers = [counted(kernel.launches, "launch", "launches"), `${count(kernel.specializations.length)} spec.`,
      time(kernel.compile_ns || null), `${known(kernel.regs)} regs`];
    const made = focusable(element("div", "ksi-kernel",
      element("span", "ksi-name", shortKernelName(kernel.name)),
      element("span", "ksi-place", clean(kernel.place)),
      element("span", "ksi-numbers", numbers.join(" · "))), -1);
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", String(kernel.key === this.key));
    made.dataset.key = kernel.key;
    made.title = `${clean(kernel.name)}\n${clean(kernel.place)}\n${numbers.join(" · ")}`;
    return made;
  }

  private options() { return [...this.list.querySelectorAll<HTMLElement>(".ksi-kernel")]; }

  private pick(option: HTMLElement | null) {
    const key = option?.dataset.key;
    if (!option || !key || key === this.key) return;
    this.key = key;
    for (const each of this.options()) {
      each.setAttribute("aria-selected", String(each === option));
      each.tabIndex = each === option ? 0 : -1;
    }
    reveal(this.list, option);
    this.chosen(key);
  }

  private moving(event: KeyboardEvent) {
    const to = rove(event, this.options());
    if (to) this.pick(to);
    else if (event.key === "/") {
      event.preventDefault();
      event.stopPropagation();
      this.search.focus();
    }
  }

  private searching(event: KeyboardEvent) {
    event.stopPropagation();
    if (event.key === "Escape" && this.search.value) {
      this.search.value = "";
      this.draw();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      const first = this.options()[0];
      if (!first) return;
      event.preventDefault();
      this.pick(first);
      first.focus();
    }
  }

  focus() { this.options().find((each) => each.tabIndex === 0)?.focus(); }
}
