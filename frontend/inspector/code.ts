// One form of a specialization's code, with others beside it: lines of all are marked as they belong together.

import type { Content } from "../code/text";
import { type CodeView, codeView } from "../code/view";
import { button, element } from "../shared/dom";
import { clean } from "../shared/text";
import { note } from "./elements";
import { legendOf, sharesOf } from "./counts";
import { type Chain, Ties } from "./ties";
import type { Answer, Form, Question, Specialization, TypeEntry } from "./wire";

/** The forms of code, from the source down, and what their tabs are called. */
export const FORMS: Record<Form, string> = {
  source: "Source", types: "Types", mlir: "MLIR", ttir: "TTIR", ttgir: "TTGIR", llvm: "LLVM", ptx: "PTX", sass: "SASS",
};
const ORDER = Object.keys(FORMS) as Form[];
const LANGUAGES: Partial<Record<Form, string>> = { source: "python", ttir: "mlir", ttgir: "mlir" };
const COPIED = new Set<Form>(["ptx", "sass"]);
/** So many forms are beside the one that is shown at most. */
const MOST_BESIDE = 2;

/** The forms of code that a specialization has, or can have. */
export function formsOf({ code }: Specialization): Form[] {
  if (code.includes("ttir") || code.includes("ttgir")) return ORDER.filter((each) => !["types", "mlir"].includes(each));
  return ORDER.filter((each) => !["mlir", "ttir", "ttgir"].includes(each) || code.includes(each));
}

/** What the inspector does for its panes: it asks Python, and tells. */
export interface Page {
  readonly canCompile: boolean;
  ask(what: Question): Promise<Answer>;
  notice(text: string): void;
  /** What changes with a specialization's code. */
  markOf(each: Specialization | null): number | undefined;
  /** Begin or end the comparison of two. */
  compared(isOn: boolean): void;
}

/** Python's answer is text; what went wrong is an error. */
export function messageOf(problem: unknown): string {
  return clean(problem instanceof Error ? problem.message : problem);
}

/** A form of code that is in the page, and what its lines came from. */
interface Shown {
  view: CodeView;
  ties: Ties;
}

export class CodePane {
  readonly root = element("div", "ksi-code");
  private shown: Shown[] = [];
  /** Specializations of which the copy with line information is shown. */
  private readonly copies = new Set<string>();
  /** What the user wants beside the form that is shown, the last chosen at the end. */
  private beside: Form[] = ["source"];
  /** Where the picked line came from, which is marked in each form that is shown then. */
  private picked: { key: string; chain: Chain } | null = null;
  private hasTemporaries = false;
  /** The place of the form that is shown among those beside it. */
  private focusAt = 0;
  /** What is awaited now; an answer to something else comes too late. */
  private token: object | null = null;

  constructor(private readonly page: Page) {}

  destroy() {
    this.token = null;
    this.clear();
  }

  private clear() { for (const { view } of this.shown.splice(0)) view.destroy(); }

  async show(specialization: Specialization, form: Form) {
    const token = this.token = {}, { key } = specialization;
    const waits = setTimeout(() => token === this.token && this.say(element("div", "ksi-wait", "reading …")), 150);
    try {
      // A function's types stand beside its source.
      const notes: Form[] = form === "source" && formsOf(specialization).includes("types") ? ["types"] : [];
      const wanted = [...new Set([form, ...this.besides(specialization, form), ...notes])];
      const answers = await Promise.all(wanted.map((each) => {
        const answer = this.page.ask({ what: "code", specialization: key, form: each,
          copy: this.isCopied(specialization, each) });
        return each === form ? answer : answer.catch(missing);
      }));
      if (token === this.token) this.draw(specialization, form, new Map(wanted.map((each, at) => [each, answers[at]])));
    } catch (problem) {
      if (token === this.token) this.say(this.failed(specialization, form, problem));
    } finally {
      clearTimeout(waits);
    }
  }

  /** The forms that are to be beside one. */
  private besides(specialization: Specialization, form: Form): Form[] {
    const known = formsOf(specialization);
    return this.beside.filter((each) => each !== form && known.includes(each)).slice(-MOST_BESIDE);
  }

  /** Whether a copy with line information is shown in the place of what ran. */
  isCopied({ key }: Specialization, form: Form) { return COPIED.has(form) && this.copies.has(key); }

  private say(...what: Node[]) {
    this.clear();
    this.root.replaceChildren(...what);
  }

  private failed(specialization: Specialization, form: Form, problem: unknown) {
    const said = note(messageOf(problem));
    if (this.isCopied(specialization, form)) said.append(" ", this.backButton(specialization, form));
    return element("div", "", ...this.heads(specialization, form), said);
  }

  private heads(specialization: Specialization, form: Form) {
    return specialization.code.length ? [element("div", "ksi-line", this.besideButtons(specialization, form))] : [];
  }

  private draw(specialization: Specialization, form: Form, answers: Map<Form, Answer>) {
    const main = answers.get(form);
    if (!main?.has_text) {
      this.say(note(main?.note ?? "", main?.fix));
      return;
    }
    const isCopy = this.isCopied(specialization, form), isTied = form === "source" || main.has_lines;
    const line = element("div", "ksi-line");
    if (isCopy) this.tellCopy(line, specialization, form);
    else if (COPIED.has(form) && !main.has_lines) this.tellNoLines(line, specialization, form);
    if (main.note) line.append(element("span", "ksi-said", main.note));
    if (isTied && specialization.code.length) line.append(this.besideButtons(specialization, form));
    const besides = isTied ? this.besides(specialization, form) : [], panes: Form[] = [form];
    for (const each of besides) {
      const answer = answers.get(each), isMissing = !answer?.has_text;
      if (!isMissing && (each === "source" || answer.has_lines)) panes.push(each);
      else line.append(element("span", "ksi-said", isMissing ? answer?.note ?? ""
        : `${FORMS[each]} has no line information.`));
    }
    if (main.counts) line.append(legendOf(main.counts));
    if (form === "types") line.append(this.temporariesToggle(() => this.draw(specialization, form, answers)));
    panes.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
    const split = element("div", panes.length > 1 ? "ksi-split" : "ksi-alone");
    split.classList.toggle("ksi-three", panes.length > 2);
    split.classList.toggle("ksi-sourced", panes[0] === "source");
    this.say(...(line.childNodes.length ? [line] : []), split);
    for (const each of panes) this.put(split, specialization.key, answers, each, panes.length === 1);
    this.focusAt = panes.indexOf(form);
    if (this.picked?.key === specialization.key) this.mark(this.picked.chain, null, true);
  }

  /** Show one of the forms: a line that is pointed at or picked marks those of the others. */
  private put(host: HTMLElement, key: string, answers: Map<Form, Answer>, form: Form, isAlone: boolean) {
    const answer = answers.get(form), types = answers.get("types");
    if (!answer) return;
    const content = form === "types" ? typesContent(answer, this.hasTemporaries) : contentOf(answer, form);
    const ties = form !== "types" && answer.ties?.length ? new Ties(content, answer.chains, answer.ties)
      : form === "source" ? Ties.ofSource(content) : Ties.ofLines(content, content.lines ?? []);
    // Below the kernel there are the functions that it calls, with numbers of their own.
    if (form === "source" && answer.ties?.length) content.labels = ties.labels();
    content.notes = form === "source" && types?.has_text ? notesOf(types) : form === "source" ? undefined : ties.notes();
    const side = element("div", "ksi-side", ...(isAlone ? [] : [element("div", "ksi-caption", FORMS[form])]));
    host.append(side);
    const view = codeView(side, {
      notice: (text) => this.page.notice(text),
      onLine: (line, { picked }) => {
        const chain = line === null ? null : ties.of(line);
        if (picked) this.picked = chain && { key, chain };
        this.mark(chain, view, picked);
      },
    });
    this.shown.push({ view, ties });
    view.show(content);
  }

  private mark(chain: Chain | null, from: CodeView | null, picked: boolean) {
    for (const { view, ties } of this.shown) {
      if (view !== from) view.mark(chain ? ties.with(chain) : [], { scroll: picked, picked });
    }
  }

  private tellNoLines(line: HTMLElement, specialization: Specialization, form: Form) {
    const why = "It has no line information, so that its lines are not tied to the source.";
    if (!this.page.canCompile) {
      line.append(note(why, formsOf(specialization).includes("ttir") ? "Unset TRITON_DISABLE_LINE_INFO, and compile it anew."
        : "Record it with @cuda.jit(lineinfo=True) and --code."));
      return;
    }
    const compile: HTMLButtonElement = button("ksi-button ksi-copy", "Compile a copy with line information",
      "Off the timed path: the kernel, its launches and its caches stay as they are", () => {
        this.copies.add(specialization.key);
        compile.disabled = true;
        compile.textContent = "compiling a copy …";
        this.show(specialization, form);
      });
    line.append(note(why, null, " ", compile, " ",
      element("span", "ksi-soft", "off the timed path; the kernel stays as it is")));
  }

  private tellCopy(line: HTMLElement, specialization: Specialization, form: Form) {
    const said = note("Shown is a copy, compiled with line information for this view, off the timed path; it is not "
      + "the code that ran, and made of the function and its globals as they are now.", null,
    " ", this.backButton(specialization, form));
    said.classList.add("ksi-warns");
    line.append(said);
  }

  private backButton(specialization: Specialization, form: Form) {
    return button("ksi-button ksi-back", "Show the code that ran", "", () => {
      this.copies.delete(specialization.key);
      this.show(specialization, form);
    });
  }

  /** A button for each other form, which puts it beside this one. */
  private besideButtons(specialization: Specialization, form: Form) {
    const now = this.besides(specialization, form), made = element("span", "ksi-beside", "Beside it:");
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", `beside ${FORMS[form]}, ${MOST_BESIDE} at most`);
    for (const each of formsOf(specialization)) {
      if (each === form) continue;
      const isOn = now.includes(each);
      const chip: HTMLButtonElement = button("ksi-button", FORMS[each],
        `${isOn ? "do not show" : "show"} ${FORMS[each]} beside ${FORMS[form]}`, () => {
          this.beside = isOn ? this.beside.filter((other) => other !== each)
            : [...now.slice(1 - MOST_BESIDE), ...this.beside.filter((other) => other === form), each];
          this.show(specialization, form).then(() => this.root.querySelector<HTMLElement>(
            `.ksi-beside [data-form=${each}]`)?.focus({ preventScroll: true }));
        });
      chip.dataset.form = each;
      chip.setAttribute("aria-pressed", String(isOn));
      made.append(chip);
    }
    return made;
  }

  private temporariesToggle(redraw: () => void) {
    return toggle("the compiler's own variables", this.hasTemporaries, (isOn) => {
      this.hasTemporaries = isOn;
      redraw();
    });
  }

  focus() { this.shown[this.focusAt]?.view.focus(); }
}

/** What stands for an answer that could not be had. */
function missing(problem: unknown): Answer {
  return { note: messageOf(problem), fix: "", first: 1, name: "", has_text: false, has_lines: false, chains: [], text: "",
    counts: null, lines: null, ties: null };
}

/** A form of code as the views take it. */
export function contentOf(answer: Answer, form: Form): Content {
  return { text: answer.text, language: LANGUAGES[form] ?? form, first: answer.first, name: answer.name,
    lines: answer.has_lines && answer.lines ? answer.lines : undefined,
    shares: answer.counts ? sharesOf(answer.counts) : undefined };
}

/** Numba's inferred types as lines of text, with the source line of each. */
export function typesContent(answer: Answer, hasTemporaries: boolean): Content {
  const entries = typesOf(answer).filter((each) => hasTemporaries || !isTemporary(each.name));
  const text = entries.map(({ name, type, expr, from }) =>
    `${name}: ${type}${expr ? `  = ${expr}` : ""}${from ? `  (${from})` : ""}`.replace(/\s*\n\s*/g, " ")).join("\n");
  return { text: text || "no variable of yours has a type of its own", language: "types", first: 1,
    name: answer.name.replace(/json$/, "types.txt"), lines: entries.map((each) => each.line) };
}

/** The types of a function's own variables by source line, for the margin. */
function notesOf(answer: Answer): Record<number, string[]> {
  const notes: Record<number, string[]> = {};
  for (const { line, name, type, brief } of typesOf(answer)) {
    if (isTemporary(name) || !line) continue;
    const text = `${name.replace(/\.\d+$/, "")}: ${brief ?? type}`;
    notes[line] ??= [];
    if (!notes[line].includes(text)) notes[line].push(text);
  }
  return notes;
}

function typesOf(answer: Answer): (TypeEntry & { line: number })[] {
  const found: unknown = JSON.parse(answer.text);
  return (Array.isArray(found) ? found as TypeEntry[] : []).map((each) => ({ ...each, line: Number(each.line) || 0,
    name: String(each.name), type: String(each.type) }));
}

/** Whether it is the compiler's: inlining turns `$4x.1` into `inlined_v2__v4x_1`. */
function isTemporary(name: string) { return /^\$|_v\d+__v/.test(name); }

function toggle(label: string, isOn: boolean, changed: (isOn: boolean) => void) {
  const box = element("input", "");
  box.type = "checkbox";
  box.checked = isOn;
  box.addEventListener("change", () => changed(box.checked));
  return element("label", "ksi-check-label", box, ` ${label}`);
}
