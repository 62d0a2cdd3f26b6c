// What is told in words beside the picture: tooltip, pinned event, sums of a selection, legend. Names go in as text
// only.

import { button, element, focusable } from "../shared/dom";
import { COLORS, KERNEL_COLORS, PHASES, PHASE_COLORS, PHASE_UNKNOWN } from "../shared/generated";
import { count, counted, duration, line, moment, percent, size } from "../shared/text";
import { type Description, describe, shortName } from "./describe";
import type { Sums } from "./sums";
import { COMPILE_WAIT, MEASURING } from "./tracks";
import type { TimelineEvent, View } from "./view";

/** Fill a tooltip with what is known of an event, or of a group. */
export function fillTip(box: HTMLElement, told: Description) {
  const head = element("div", "kst-tip-head", element("b", "", told.title), element("span", "", told.kind));
  const list = element("dl", "");
  for (const [label, value, color] of told.rows) {
    const term = element("dt", "", label);
    if (color) {
      const key = element("i", "kst-key");
      key.style.background = color;
      term.prepend(key);
    }
    list.append(element("div", "", term, element("dd", "", value)));
  }
  box.replaceChildren(head, list);
}

/** One sentence of an event, for people who do not see the picture. */
export function sentence(view: View, event: TimelineEvent) {
  const told = describe(event, view.model);
  const rows = told.rows.filter(([label]) => label !== "ids" && label !== "source").slice(0, 8);
  return `${told.kind} ${told.title}: ${rows.map(([label, value]) => `${label} ${value}`).join(", ")}`;
}

/** Fill the panel of a selection. */
export function fillSums(panel: HTMLElement, sums: Sums, close: () => void): void {
  const drop = button("kst-close", "×", "Drop the selection (Esc)", close);
  const head = element("div", "kst-sums-head", element("b", "", `Selected ${duration(sums.span)}`),
    element("span", "", `from ${moment(sums.from, 1000)} to ${moment(sums.to, 1000)}`), drop);
  const tiles = element("div", "kst-tiles");
  const tile = (label: string, value: string, note: string) => {
    tiles.append(element("div", "", element("span", "", label), element("b", "", value), element("span", "", note)));
  };
  tile("Launches", count(sums.launches), `${duration(sums.host)} of the host`);
  tile("GPU busy", sums.span ? percent(sums.busy / sums.span / Math.max(1, sums.devices)) : "–",
    `${duration(sums.busy)}${sums.devices > 1 ? ` on ${sums.devices} GPUs` : ""}`);
  tile("Kernels", count(sums.kernels), duration(sums.kernelTime));
  tile("Copies and memsets", count(sums.copies), `${size(sums.copyBytes)}, ${duration(sums.copyTime)}`);
  const parts: HTMLElement[] = [tiles];
  if (sums.host > 0) parts.push(phaseBar(sums));
  if (sums.byKernel.length) {
    parts.push(table("On the GPU", ["kernel", "kernels", "time"], sums.byKernel.map((each) => [
      shortName(each.name), count(each.kernels), duration(each.gpu)])));
  }
  if (sums.byLaunch.length) {
    parts.push(table("On the host", ["launched", "launches", "time"], sums.byLaunch.map((each) => [
      line(each.name), count(each.launches), duration(each.host)])));
  }
  const body = element("div", "kst-sums-body", ...parts);
  panel.replaceChildren(head, body);
  panel.hidden = false;
}

let lists = 0;

/** The list of what a search has found: up and down, Home and End show its events, as does a click. */
export class Matches {
  readonly list: HTMLElement;
  private readonly options: HTMLElement[];
  private at = -1;

  constructor(
    panel: HTMLElement, view: View, private readonly found: TimelineEvent[], readonly isByDuration: boolean,
    private readonly does: { order(isByDuration: boolean): void; go(event: TimelineEvent): void; close(): void },
  ) {
    const order = (text: string, wanted: boolean) => {
      const made = button("ksv-button", text, `order by ${text} (o)`, () => does.order(wanted));
      made.setAttribute("aria-pressed", String(wanted === isByDuration));
      return made;
    };
    const total = view.search?.count ?? 0, own = `kst-matches-${lists++}`;
    const said = counted(total, "match", "matches");
    const head = element("div", "kst-sums-head", element("b", "", said),
      element("span", "", total > found.length ? `the first ${count(found.length)} by` : "by"),
      order("time", false), order("duration", true), button("kst-close", "×", "Close the list (m)", does.close));
    this.options = found.map((event, at) => {
      const told = describe(event, view.model), { track, index } = event;
      const name = told.title.startsWith(told.kind) ? told.title : `${told.kind} ${told.title}`;
      const made = element("div", "kst-match", element("span", "", line(name)),
        element("span", "", moment(view.model.axis.real(track.start[index]), 1000)),
        element("span", "", duration(Math.max(0, track.end[index] - track.start[index]))));
      made.id = `${own}-${at}`;
      made.setAttribute("role", "option");
      made.setAttribute("aria-selected", "false");
      made.addEventListener("click", () => this.choose(at));
      return made;
    });
    this.list = focusable(element("div", "kst-list", ...this.options));
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", `${said} by ${isByDuration ? "duration" : "time"}`);
    this.list.title = "up and down show a match, Esc closes what was opened last";
    this.list.addEventListener("keydown", (event) => this.key(event));
    panel.replaceChildren(head, this.list);
  }

  private key(event: KeyboardEvent) {
    const last = this.options.length - 1, { at } = this;
    const to = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last,
      Enter: Math.max(0, at) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(to);
  }

  private choose(at: number) {
    this.set(at);
    this.does.go(this.found[at]);
  }

  private set(at: number) {
    this.options[this.at]?.setAttribute("aria-selected", "false");
    this.at = at;
    const chosen = this.options[at];
    if (!chosen) { this.list.removeAttribute("aria-activedescendant"); return; }
    chosen.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", chosen.id);
    // Only the list is scrolled, and not the page.
    const { list } = this, top = chosen.offsetTop - list.offsetTop;
    list.scrollTop = Math.min(top, Math.max(list.scrollTop, top + chosen.offsetHeight - list.clientHeight));
  }

  private placeOf(event: TimelineEvent | null): number {
    return this.found.findIndex((each) => each.track === event?.track && each.index === event.index);
  }

  /** Mark an event of the list as the one that is shown; no line where the list does not have it. */
  mark(event: TimelineEvent): void { this.set(this.placeOf(event)); }

  /** The match after an event in the list's order, or the one before; null where the list ends or has no such event. */
  step(from: TimelineEvent | null, forward: boolean): TimelineEvent | null {
    const at = this.placeOf(from);
    if (at < 0) return this.isByDuration ? this.found[0] : null;
    return this.found[at + (forward ? 1 : -1)] ?? (this.isByDuration ? this.found[forward ? 0 : this.found.length - 1] : null);
  }
}

function phaseBar(sums: Sums) {
  const bar = element("div", "kst-phasebar"), list = element("div", "kst-phases");
  PHASES.forEach((name, phase) => {
    const spent = sums.phases[name];
    if (spent <= 0) return;
    const part = element("span", phase === PHASE_UNKNOWN ? "kst-striped" : "");
    part.style.flexGrow = String(spent);
    part.style.background = PHASE_COLORS[phase];
    bar.append(part);
    const key = element("i", "kst-key");
    key.style.background = PHASE_COLORS[phase];
    list.append(element("span", "", key, `${name} `, element("b", "", duration(spent))));
  });
  return element("div", "kst-split", element("span", "kst-caption", "Host time in launches by phase"), bar, list);
}

function table(caption: string, heads: string[], rows: string[][]) {
  const body = element("tbody", "");
  for (const row of rows) body.append(element("tr", "", ...row.map((value) => element("td", "", value))));
  const head = element("thead", "", element("tr", "", ...heads.map((each) => element("th", "", each))));
  return element("table", "", element("caption", "", caption), head, body);
}

/** The legend: what colors and patterns mean. */
export function legend(view: View): HTMLElement[] {
  const { model } = view, keys: HTMLElement[] = [];
  const key = (color: string, text: string, pattern = "") => {
    const mark = element("i", `kst-key ${pattern}`);
    mark.style.setProperty("--kst-color", color);
    keys.push(element("span", "", mark, text));
  };
  if (model.table("launches").rows) {
    const launches = model.table("launches"), rare = new Map([[COMPILE_WAIT, "compile_wait_ns"], [MEASURING, "measuring_ns"]]);
    PHASES.forEach((name, phase) => {
      const column = rare.get(phase), isThere = column === undefined || launches.col(column).some((each) => each > 0);
      if (phase !== PHASE_UNKNOWN && isThere) key(PHASE_COLORS[phase], name);
    });
    key(PHASE_COLORS[PHASE_UNKNOWN], "phase unknown", "kst-striped");
    const captured = model.table("launches").spec("capture");
    if (captured.k || captured.p || captured.b >= 0) key(PHASE_COLORS[0], "captured, not run", "kst-hollow");
  }
  if (model.table("gpu").rows) {
    key(KERNEL_COLORS[0], "kernels, a color a name");
    key(COLORS.copy, "copies, memsets", "kst-striped");
  }
  if (model.table("samples").rows) key(COLORS.sample, "the GPU's counters, 0 to 100 %");
  if (model.table("events").rows) key(COLORS.event, "graphs: capture, build, update, launch");
  if (model.table("calls").rows) {
    key(COLORS.call, "driver calls");
    key(COLORS.wait, "waits for the GPU", "kst-striped");
  }
  key("#888888", "end unknown", "kst-striped-back");
  const { breaks } = model.axis;
  if (breaks.length) {
    const idle = breaks.reduce((sum, each) => sum + each.to - each.from, 0);
    key("#888888", `${duration(idle)} idle, drawn short: u unfolds`, "kst-striped-back");
  }
  if (model.header.processes) {
    const gpu = model.table("gpu").rows ? ", below of its GPUs" : "";
    keys.push(element("span", "", `a process's own row: how busy it was, its host in launches${gpu}`));
  }
  const left = model.header.left_out;
  if (left.length) keys.push(element("span", "", `left out for size: ${left.join(", ")}`));
  return keys;
}

export const KEYS = [
  ["w s, + −, wheel", "zoom (the wheel once the timeline has the focus, or with Ctrl)"],
  ["a d, ← →, drag", "move in time"],
  ["↑ ↓", "scroll; with an event chosen: the lane above, below"],
  ["f", "show all; with an event chosen: fit it"],
  ["b, Shift-drag", "zoom into a box: b, then drag"],
  ["drag on the ruler, r", "sum up a stretch; r: what is shown, or the chosen event's"],
  ["Enter, Tab, Shift-Tab", "choose an event of the lane; the next, the one before"],
  ["click", "choose an event: its details are below the lanes"],
  ["/, n, N", "search by name; next match, previous"],
  ["m, o", "list the matches; order them by time or duration; ↑ ↓ show them"],
  ["i", "open the inspector at the chosen event's specialization"],
  ["c", "show the line of code that made the chosen event"],
  ["l, L, click its name", "fold the lane of the focus or the chosen event to one row; L: all of its kind"],
  ["p", "pin that lane to the top, where it stays in view"],
  ["u, U", "draw idle time in sight as long as it was, or short again; U: all short again"],
  ["Esc", "close what was opened last: event, list, selection, search, keys"],
  ["?", "show these keys"],
];
