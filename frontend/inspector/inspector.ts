// The inspector: mount() shows the kernels of a recording or of this session in an element. Nothing is fetched; what is
// not in the facts is asked of Python.

import CODE_STYLE from "../code/code.css";
import STYLE from "./inspector.css";
import { button, element, keepShortcutsAway } from "../shared/dom";
import { frame } from "../shared/frame";
import { offerInspector } from "../shared/places";
import { clean, counted } from "../shared/text";
import type { Page } from "./code";
import { Detail } from "./detail";
import { known, note, sentence, time } from "./elements";
import { KernelList, shortKernelName } from "./kernels";
import { SpecializationTable } from "./table";
import type { Answer, Facts, Kernel, Question, Specialization } from "./wire";

// The views of code by themselves, for whoever shows code alone.
export { CODE_STYLE };
export { diffView } from "../code/diff";
export { codeView } from "../code/view";

// So many answers are kept, of those that were looked at last.
const KEPT = 24;
const LIVE = ["live", "New specializations appear after each cell"];
const FINISHED = ["recording", "A finished recording"];
const ENDED = ["kernel ended", "The Python kernel that showed this has ended or was restarted: run the cell again"];
const KEYS = [
  ["↑ ↓ Home End", "choose a kernel or a specialization"],
  ["Space", "check a specialization: two can be compared"],
  ["← →", "turn the tabs; move along the table's heads, which sort"],
  ["Enter, ↓", "from a row to the tabs, from the tabs into the panel"],
  ["Esc", "back: panel, tabs, table, kernels, notebook"],
  ["/", "search the kernels"],
];

export interface Options {
  facts: Facts;
  /** How code and compile times are asked for. */
  ask: (what: Question) => Promise<Answer>;
}

/** Show the inspector in an element; what it holds already is kept. */
export function mount(host: HTMLElement, options: Options): Inspector { return new Inspector(host, options); }

export class Inspector implements Page {
  readonly root = frame("ksi", "KernelScope inspector", CODE_STYLE + STYLE);
  private facts!: Facts;
  private readonly asking: Options["ask"];
  private readonly answers = new Map<string, Promise<Answer>>();
  /** The specialization chosen last of each kernel. */
  private readonly chosen = new Map<string, string>();
  private readonly list: KernelList;
  private readonly table: SpecializationTable;
  private readonly detail: Detail;
  private kernelKey?: string;
  private kernelName = "";
  private isComparing = false;
  /** How many specializations there are. */
  private count?: number;
  private readonly ended: () => void;
  private readonly top = element("div", "ksi-top");
  private readonly head = element("div", "ksi-head");
  private readonly tableHead = element("div", "ksi-caption");
  private readonly live = element("div", "ksv-live ksi-live");
  private compare!: HTMLButtonElement;
  private body!: HTMLElement;

  constructor(host: HTMLElement, { facts, ask }: Options) {
    this.asking = ask;
    this.list = new KernelList((key) => this.choose(key));
    this.table = new SpecializationTable({
      chosen: (key) => this.specialize(key),
      checked: () => this.drawChecked(),
      entered: () => this.detail.focus(),
    });
    this.detail = new Detail(this);
    this.fill();
    host.append(this.root);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("ksc-leave", () => this.back());
    this.update(facts);
    this.ended = offerInspector({ root: this.root, has: (key) => this.ownerOf(key) !== undefined, show: (key) => this.show(key) });
    // A timeline may have come since.
    this.root.addEventListener("pointerenter", () => this.detail.drawLinks());
    this.root.addEventListener("focusin", () => this.detail.drawLinks());
  }

  private fill() {
    this.compare = button("ksi-button ksi-compare", "Compare", "Check two rows to see them side by side",
      () => this.compared(true));
    const right = element("div", "ksi-right", this.head, element("div", "ksi-line", this.tableHead, this.compare),
      this.table.root, this.detail.root);
    this.live.setAttribute("role", "status");
    this.body = element("div", "ksi-body", this.list.root, right);
    this.root.append(this.top, this.body, this.live);
  }

  /** Take new facts; what is chosen, checked, searched and scrolled stays. */
  update(facts: Facts) {
    const before = this.count;
    this.facts = facts;
    // What an ended kernel has answered is all that there will be.
    if (!facts.has_ended) this.answers.clear();
    this.drawTop();
    const { kernels } = facts;
    this.count = kernels.reduce((sum, each) => sum + each.specializations.length, 0);
    const keys = new Set(kernels.map((each) => each.key));
    const isOther = before !== undefined && !keys.has(this.kernelKey ?? ""), name = this.kernelName;
    if (!this.kernelKey || !keys.has(this.kernelKey)) {
      this.kernelKey = facts.first && keys.has(facts.first) ? facts.first : kernels[0]?.key;
    }
    this.list.show(kernels, this.kernelKey);
    this.body.hidden = !kernels.length;
    this.drawKernel();
    if (before === undefined && facts.pair) this.compareFirst(facts.pair);
    const more = this.count - (before ?? this.count);
    if (facts.has_ended) this.notice("the Python kernel has ended");
    else if (isOther && this.kernel?.name === name) this.notice(`${shortKernelName(name)} was defined again`);
    else if (more > 0) this.notice(counted(more, "new specialization"));
  }

  /** What changes with a specialization's code: recompile() makes other code of the same arguments. */
  markOf(each: Specialization | null): number | undefined { return each ? this.facts.marks?.[each.key] : undefined; }

  get canCompile(): boolean { return this.facts.can_compile; }

  /** What Python answers; the same question is asked once. */
  ask(what: Question): Promise<Answer> {
    const name = JSON.stringify(what);
    const held = this.answers.get(name);
    if (held) return held;
    const answer = this.asking(what);
    this.answers.set(name, answer);
    answer.catch(() => this.answers.delete(name));
    for (const [oldest] of this.answers) {
      if (this.answers.size <= KEPT) break;
      this.answers.delete(oldest);
    }
    return answer;
  }

  notice(text: string) { this.live.textContent = text; }

  destroy() {
    this.ended();
    this.detail.destroy();
    this.root.remove();
  }

  // ---- Choosing ----

  private get kernel(): Kernel | undefined { return this.facts.kernels.find((each) => each.key === this.kernelKey); }

  private ownerOf(key: string): Kernel | undefined {
    return this.facts.kernels.find((each) => each.key === key || each.specializations.some((one) => one.key === key));
  }

  /** Choose a kernel or a specialization and bring it into sight; whether it is there. */
  show(key: string): boolean {
    const kernel = this.ownerOf(key);
    if (!kernel) return false;
    this.kernelKey = kernel.key;
    this.isComparing = false;
    if (kernel.key !== key) this.chosen.set(kernel.key, key);
    this.list.show(this.facts.kernels, kernel.key);
    this.drawKernel();
    this.root.scrollIntoView({ block: "nearest", behavior: "instant" });
    this.table.focus();
    return true;
  }

  private choose(key: string) {
    this.kernelKey = key;
    this.isComparing = false;
    this.drawKernel();
    if (!this.kernel) return;
    const { name, specializations } = this.kernel;
    this.notice(`${shortKernelName(name)}: ${counted(specializations.length, "specialization")}`);
  }

  private specialize(key: string) {
    if (this.kernelKey) this.chosen.set(this.kernelKey, key);
    this.isComparing = false;
    this.drawDetail();
  }

  /** Show two side by side from the beginning; the focus stays where it is. */
  private compareFirst([one, two, tab]: NonNullable<Facts["pair"]>) {
    this.table.checkOnly([one, two]);
    this.isComparing = this.table.checked.size === 2;
    this.detail.beginPair(tab);
    this.drawDetail();
  }

  compared(isOn: boolean) {
    this.isComparing = isOn && this.table.checked.size === 2;
    this.drawDetail();
    if (this.isComparing) this.detail.focus();
    else this.table.focus();
  }

  /** The chosen specialization; the first of the kernel where none was chosen. */
  private specialization(): Specialization | undefined {
    const { specializations } = this.kernel ?? { specializations: [] };
    return specializations.find((each) => each.key === this.chosen.get(this.kernelKey ?? "")) ?? specializations[0];
  }

  private key(event: KeyboardEvent) {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.stopPropagation();
    this.back();
  }

  /** One step out: of the help, a comparison, the panel, the tabs, the table, the inspector. */
  private back() {
    const from = document.activeElement, help = this.top.querySelector<HTMLDetailsElement>(".ksi-help[open]");
    if (help) help.open = false;
    else if (this.isComparing) this.compared(false);
    else if (this.detail.strip.contains(from)) this.table.focus();
    else if (this.detail.root.contains(from)) this.detail.focus();
    else if (this.table.root.contains(from) && !this.list.root.hidden) this.list.focus();
    else {
      // Out of the inspector: the notebook's keys are the cell's again.
      if (from instanceof HTMLElement) from.blur();
      this.root.closest<HTMLElement>(".jp-Cell")?.focus({ preventScroll: true });
    }
  }

  // ---- Drawing ----

  private drawTop() {
    const { facts } = this, parts: HTMLElement[] = [element("b", "ksi-title", "Inspector")];
    if (facts.title) parts.push(element("span", "ksi-soft", clean(facts.title)));
    const [state, title] = facts.has_ended ? ENDED : facts.is_live ? LIVE : FINISHED;
    const chip = element("span", "ksi-chip", state);
    chip.title = title;
    parts.push(chip);
    if (facts.notice) parts.push(element("span", "ksi-chip ksi-bad", facts.notice));
    const keys = KEYS.flatMap(([key, does]) => [element("kbd", "", key), element("span", "", does)]);
    const summary = element("summary", "", "Keys"), help = element("details", "ksi-help", summary,
      element("div", "ksi-keys", ...keys));
    keepShortcutsAway(summary);
    this.top.replaceChildren(...parts, element("span", "ksi-space"), help);
    if (!facts.kernels.length) this.top.append(note("There is no kernel in it.", "Launch one while it is recorded."));
  }

  private drawKernel() {
    const { kernel } = this;
    if (!kernel) return;
    this.kernelName = kernel.name;
    const options = Object.entries(kernel.options).map(([name, value]) => `${clean(name)}=${clean(value)}`).join(", ");
    const title = element("span", "ksi-name ksi-large", clean(kernel.name));
    title.title = clean(kernel.name);
    const facts = element("div", "ksi-soft", [
      clean(kernel.place), argumentsOf(kernel), options || "no compile options",
      counted(kernel.launches, "launch", "launches"),
      kernel.compile_ns ? `${time(kernel.compile_ns)} compiling and loading` : "nothing compiled here",
      `${known(kernel.regs)} registers`,
    ].join(" · "));
    const advice = kernel.advice.map((each) => element("div", "ksi-advice", ...sentence(each)));
    this.head.replaceChildren(title, facts, ...advice);
    this.table.show(kernel, this.specialization()?.key);
    this.tableHead.textContent = counted(kernel.specializations.length, "specialization");
    this.drawChecked();
    this.drawDetail();
  }

  private drawChecked() {
    const { size } = this.table.checked;
    this.compare.disabled = size !== 2;
    this.compare.hidden = (this.kernel?.specializations.length ?? 0) < 2;
    this.compare.textContent = size === 1 ? "Compare: check one more" : "Compare";
    if (size !== 2 && this.isComparing) {
      this.isComparing = false;
      this.drawDetail();
    } else if (this.isComparing) this.drawDetail();
  }

  private drawDetail() {
    if (this.isComparing) {
      const { checked } = this.table, all = this.kernel?.specializations ?? [];
      const pair = all.filter((each) => checked.has(each.key)).sort((a, b) => a.number - b.number);
      if (pair.length === 2) {
        this.detail.show(pair[0], pair[1]);
        return;
      }
      this.isComparing = false;
    }
    this.detail.show(this.specialization() ?? null);
  }
}

function argumentsOf(kernel: Kernel): string {
  if (kernel.arguments.length) return `(${kernel.arguments.map(clean).join(", ")})`;
  const isWithout = kernel.specializations.every((each) => !each.arguments.length);
  return isWithout && kernel.specializations.length ? "no arguments" : "names of its arguments not recorded";
}
