// One form of a specialization's code, with its source beside it: lines of both are marked as they belong together.

import type { Content } from "../code/text";
import { type CodeView, codeView } from "../code/view";
import { button, element } from "../shared/dom";
import { clean } from "../shared/text";
import { note } from "./elements";
import type { Answer, Form, Question, Specialization, TypeEntry } from "./wire";

const FORM_LANGUAGES: Record<Form, string> = {
  source: "python", types: "types", mlir: "mlir", llvm: "llvm", ptx: "ptx", sass: "sass",
};
// Forms that come from the source line by line.
const CORRELATED = new Set<Form>(["types", "mlir", "llvm", "ptx", "sass"]);
const COPIED = new Set<Form>(["ptx", "sass"]);

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

export class CodePane {
  readonly root = element("div", "ksi-code");
  private views: CodeView[] = [];
  /** Specializations of which the copy with line information is shown. */
  private readonly copies = new Set<string>();
  private isBeside = true;
  private hasTemporaries = false;
  /** What is awaited now; an answer to something else comes too late. */
  private token: object | null = null;

  constructor(private readonly page: Page) {}

  destroy() {
    this.token = null;
    for (const each of this.views.splice(0)) each.destroy();
  }

  async show(specialization: Specialization, form: Form) {
    const token = this.token = {}, { key } = specialization;
    const isCopy = this.isCopied(specialization, form);
    const waits = setTimeout(() => token === this.token && this.say(element("div", "ksi-wait", "reading …")), 150);
    try {
      const wanted = [this.page.ask({ what: "code", specialization: key, form, copy: isCopy })];
      wanted.push(this.page.ask({ what: "code", specialization: key, form: form === "source" ? "types" : "source" }));
      const [main, other] = await Promise.all(wanted);
      if (token === this.token) this.draw(specialization, form, isCopy, main, other);
    } catch (problem) {
      if (token === this.token) this.say(this.failed(specialization, form, isCopy, problem));
    } finally {
      clearTimeout(waits);
    }
  }

  /** Whether a copy with line information is shown in the place of what ran. */
  isCopied({ key }: Specialization, form: Form) { return COPIED.has(form) && this.copies.has(key); }

  private say(...what: Node[]) {
    for (const each of this.views.splice(0)) each.destroy();
    this.root.replaceChildren(...what);
  }

  private failed(specialization: Specialization, form: Form, isCopy: boolean, problem: unknown) {
    const said = note(messageOf(problem));
    if (isCopy) said.append(" ", this.backButton(specialization, form));
    return said;
  }

  private draw(specialization: Specialization, form: Form, isCopy: boolean, main: Answer, other: Answer) {
    if (!main.has_text) {
      this.say(note(main.note, main.fix));
      return;
    }
    const shown = form === "types" ? typesContent(main, this.hasTemporaries) : content(main, form);
    if (form === "source" && other.has_text) shown.notes = notesOf(other);
    const canCorrelate = CORRELATED.has(form) && shown.lines !== undefined && other.has_text;
    const line = element("div", "ksi-line");
    if (isCopy) this.tellCopy(line, specialization, form);
    else if (COPIED.has(form) && !main.has_lines) this.tellNoLines(line, specialization, form);
    if (main.note) line.append(element("span", "ksi-said", main.note));
    const again = () => this.draw(specialization, form, isCopy, main, other);
    if (canCorrelate) line.append(this.besideToggle(again));
    else if (CORRELATED.has(form) && shown.lines) line.append(element("span", "ksi-said", other.note));
    if (form === "types") line.append(this.temporariesToggle(again));
    const isSplit = canCorrelate && this.isBeside;
    const split = element("div", isSplit ? "ksi-split" : "ksi-alone");
    this.say(...(line.childNodes.length ? [line] : []), split);
    if (isSplit) this.pair(split, content(other, "source"), shown);
    else this.views.push(this.view(split, shown, () => {}));
  }

  private view(host: HTMLElement, shown: Content, onLine: (line: number | null, how: { picked: boolean }) => void) {
    const side = element("div", "ksi-side");
    host.append(side);
    const view = codeView(side, { onLine, notice: (text) => this.page.notice(text) });
    view.show(shown);
    return view;
  }

  /** The source on the left and what came of it on the right; a line of either marks those of the other. */
  private pair(host: HTMLElement, source: Content, made: Content) {
    const bySource = new Map<number, number[]>(), { first = 1, lines = [] } = made;
    Array.from(lines).forEach((line, at) => {
      if (!line) return;
      const held = bySource.get(line);
      if (held) held.push(at + first); else bySource.set(line, [at + first]);
    });
    const left: CodeView = this.view(host, source, (line, { picked }) =>
      right.mark(line === null ? [] : bySource.get(line) ?? [], { scroll: picked, picked }));
    const right: CodeView = this.view(host, made, (line, { picked }) => {
      const from = line === null ? 0 : lines[line - first];
      left.mark(from ? [from] : [], { scroll: picked, picked });
    });
    this.views.push(left, right);
  }

  private tellNoLines(line: HTMLElement, specialization: Specialization, form: Form) {
    const why = "It has no line information, so that its lines are not tied to the source.";
    if (!this.page.canCompile) {
      line.append(note(why, "Record it with @cuda.jit(lineinfo=True) and --code."));
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

  private besideToggle(redraw: () => void) {
    return toggle("source beside it", this.isBeside, (isOn) => { this.isBeside = isOn; redraw(); });
  }

  private temporariesToggle(redraw: () => void) {
    return toggle("the compiler's own variables", this.hasTemporaries, (isOn) => {
      this.hasTemporaries = isOn;
      redraw();
    });
  }

  focus() { this.views.at(-1)?.focus(); }
}

/** A form of code as the views take it. */
export function content(answer: Answer, form: Form): Content {
  return { text: answer.text, language: FORM_LANGUAGES[form], first: answer.first, name: answer.name,
    lines: answer.has_lines && answer.lines ? answer.lines : undefined };
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
