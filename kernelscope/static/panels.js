// What is told in words beside the picture: tooltip, pinned event, sums of a selection, legend. Names go in as text
// only.

import { PHASE_COLORS } from "./colors.js";
import { describe, shortName } from "./describe.js";
import { PHASES } from "./levels.js";
import { count, counted, duration, line, moment, percent, size } from "./text.js";

/** Make an element; strings become text nodes. */
export function make(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  // Jupyter's shortcuts are kept from what has the focus by an attribute of that very element.
  if (tag === "button" || tag === "input") element.setAttribute("data-lm-suppress-shortcuts", "true");
  element.append(...inside);
  return element;
}

/** Fill a tooltip with what is known of an event. */
export function fillTip(element, view, event) {
  const told = describe(view.model, event.table, event.id, event.track, event.index);
  const head = make("div", "kst-tip-head", make("b", "", told.title), make("span", "", told.kind));
  const list = make("dl", "");
  for (const [label, value, color] of told.rows) {
    const term = make("dt", "", label);
    if (color) {
      const key = make("i", "kst-key");
      key.style.background = color;
      term.prepend(key);
    }
    list.append(term, make("dd", "", value));
  }
  element.replaceChildren(head, list);
  return told;
}

/** One sentence of an event, for people who do not see the picture. */
export function sentence(view, event) {
  const told = describe(view.model, event.table, event.id, event.track, event.index);
  const rows = told.rows.filter(([label]) => label !== "ids" && label !== "source").slice(0, 8);
  return `${told.kind} ${told.title}: ${rows.map(([label, value]) => `${label} ${value}`).join(", ")}`;
}

/** Fill the panel of a selection. */
export function fillSums(element, view, close) {
  const sums = view.sums();
  const button = make("button", "kst-close", "×");
  button.type = "button";
  button.title = "Drop the selection (Esc)";
  button.setAttribute("aria-label", "drop the selection");
  button.addEventListener("click", close);
  const head = make("div", "kst-sums-head", make("b", "", `Selected ${duration(sums.span)}`),
    make("span", "", `from ${moment(sums.from, 1000)} to ${moment(sums.to, 1000)}`), button);
  const tiles = make("div", "kst-tiles");
  const tile = (label, value, note) => tiles.append(make("div", "", make("span", "", label), make("b", "", value),
    make("span", "", note)));
  tile("Launches", count(sums.launches), `${duration(sums.host)} of the host`);
  tile("GPU busy", sums.span ? percent(sums.busy / sums.span / Math.max(1, sums.devices)) : "–",
    `${duration(sums.busy)}${sums.devices > 1 ? ` on ${sums.devices} GPUs` : ""}`);
  tile("Kernels", count(sums.kernels), duration(sums.kernelTime));
  tile("Copies and sets", count(sums.copies), `${size(sums.copyBytes)}, ${duration(sums.copyTime)}`);
  const parts = [head, tiles];
  if (sums.host > 0) parts.push(phaseBar(sums));
  if (sums.byKernel.length) {
    parts.push(table("On the GPU", ["kernel", "kernels", "time"], sums.byKernel.map((each) => [
      shortName(each.name), count(each.kernels), duration(each.gpu)])));
  }
  if (sums.byLaunch.length) {
    parts.push(table("On the host", ["launched", "launches", "time"], sums.byLaunch.map((each) => [
      line(each.name), count(each.launches), duration(each.host)])));
  }
  const body = make("div", "kst-sums-body", ...parts.slice(1));
  element.replaceChildren(head, body);
  element.hidden = false;
  return sums;
}

function phaseBar(sums) {
  const bar = make("div", "kst-phasebar"), list = make("div", "kst-phases");
  PHASES.forEach((name, phase) => {
    const spent = sums.phases[name];
    if (spent <= 0) return;
    const part = make("span", name === "unsplit" ? "kst-striped" : "");
    part.style.flexGrow = String(spent);
    part.style.background = PHASE_COLORS[phase];
    bar.append(part);
    const key = make("i", "kst-key");
    key.style.background = PHASE_COLORS[phase];
    list.append(make("span", "", key, `${name} `, make("b", "", duration(spent))));
  });
  return make("div", "kst-split", make("span", "kst-caption", "Host time in launches by phase"), bar, list);
}

function table(caption, heads, rows) {
  const body = make("tbody", "");
  for (const row of rows) body.append(make("tr", "", ...row.map((value) => make("td", "", value))));
  const head = make("thead", "", make("tr", "", ...heads.map((each) => make("th", "", each))));
  return make("table", "", make("caption", "", caption), head, body);
}

/** The legend: what colors and patterns mean. */
export function legend(view) {
  const { model } = view, keys = [];
  const key = (color, text, pattern = "") => {
    const mark = make("i", `kst-key ${pattern}`);
    mark.style.setProperty("--kst-color", color);
    keys.push(make("span", "", mark, text));
  };
  if (model.table("launches").rows) {
    PHASES.forEach((name, phase) => {
      if (name !== "unsplit") key(PHASE_COLORS[phase], name);
    });
    key(PHASE_COLORS[5], "phase unknown", "kst-striped");
    const captured = model.table("launches").specs.get("capture");
    if (captured.k || captured.p || captured.b >= 0) key(PHASE_COLORS[0], "captured, not run", "kst-hollow");
  }
  if (model.table("gpu").rows) {
    key("#3f7fc4", "kernels, a color a name");
    key("#6f8f9f", "copies, memsets", "kst-striped");
  }
  if (model.table("events").rows) key("#4f8f8b", "graphs: capture, build, update, launch");
  if (model.table("calls").rows) {
    key("#7d8fa6", "driver calls");
    key("#c9a9c0", "waits for the GPU", "kst-striped");
  }
  key("#888888", "end unknown", "kst-striped-back");
  const left = model.header.left_out;
  if (left.length) keys.push(make("span", "", `left out for size: ${left.join(", ")}`));
  return keys;
}

export const KEYS = [
  ["w s, + −, wheel", "zoom (the wheel once the timeline has the focus, or with Ctrl)"],
  ["a d, ← →, drag", "move in time"],
  ["↑ ↓", "scroll; with an event chosen: the lane above, below"],
  ["f", "show all; with an event chosen: fit it"],
  ["Shift-drag", "zoom into a box"],
  ["drag on the ruler, r", "sum up a stretch; r: what is shown, or the chosen event's"],
  ["Enter, Tab, Shift-Tab", "choose an event of the lane; the next, the one before"],
  ["click", "pin an event; its text can be copied"],
  ["/, n, N", "search by name; next match, previous"],
  ["l", "fold the lane of the chosen event"],
  ["Esc", "let go: event, selection, search"],
];

export { counted };
