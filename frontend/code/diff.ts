// Two codes side by side: aligned, what differs marked by line and word, and what is equal folded.

import { button, closest, element } from "../shared/dom";
import { clean, count, counted } from "../shared/text";
import { type Comparison, PAIR, changedWords, compareTexts } from "./align";
import { CodeFolds } from "./folds";
import { CodeFrame } from "./frame";
import { CodeStates } from "./highlight";
import { CodeText, type Content, type Found, lineElement, widthOf } from "./text";

const SIDES = ["left", "right"];
let diffs = 0;

interface Told {
  /** Told what was done, such as copied. */
  notice?: (text: string) => void;
}

/** Show two codes side by side in an element; the view is added to what it holds. */
export function diffView(host: HTMLElement, options: Told = {}): DiffView { return new DiffView(host, options); }

export class DiffView extends CodeFrame {
  readonly aside: HTMLElement;
  texts!: [CodeText, CodeText];
  found!: Comparison;
  private isLoose = false;
  private states!: CodeStates[];
  /** Which difference was gone to last, -1 for none. */
  private at = -1;
  private readonly width = element("div", "");
  private readonly heads = SIDES.map(() => element("span", "ksc-side-name"));
  private readonly about = element("span", "ksc-about");
  private readonly hint = element("span", "ksc-hint");
  private readonly place = element("span", "ksc-count");
  private previous!: HTMLButtonElement;
  private next!: HTMLButtonElement;
  private loose!: HTMLButtonElement;
  private open!: HTMLButtonElement;
  private names!: HTMLButtonElement;

  constructor(host: HTMLElement, { notice }: Told) {
    super(host, `ksc-diff-${diffs += 1}`, notice ?? (() => {}));
    this.aside = element("div", "ksc-aside", this.width);
    this.element.classList.add("ksc-diff");
    this.element.append(this.makeBar(), element("div", "ksc-heads", ...this.heads), this.scrolled, this.aside,
      this.more, this.live);
    const sized = new ResizeObserver(() => this.spread());
    sized.observe(this.scroller);
    this.undoing.add(() => sized.disconnect());
    this.listen();
    this.show({ text: "" }, { text: "" });
  }

  private makeBar(): HTMLElement {
    this.place.setAttribute("role", "status");
    this.previous = button("ksc-button ksc-previous", "↑", "previous difference (p)", () => this.step(-1));
    this.next = button("ksc-button ksc-next", "↓", "next difference (n)", () => this.step(1));
    this.loose = button("ksc-button ksc-loose", "Ignore register numbers and labels",
      "compare without register numbers, labels and what mangled names were made from",
      () => this.turn("isLoose", this.loose));
    this.open = button("ksc-button ksc-open-all", "Unfold all", "show all equal lines", () => this.foldAll(false));
    this.names = button("ksc-button ksc-names", "Full names", "show long mangled names in full",
      () => this.turn("isFull", this.names));
    for (const each of [this.loose, this.names]) each.setAttribute("aria-pressed", "false");
    return element("div", "ksc-bar", this.about,
      element("span", "ksc-seek", this.previous, this.next, this.place, this.hint),
      element("span", "ksc-tools", this.loose, this.open, this.names));
  }

  /** Compare two texts and show the first difference. */
  show(left: Content, right: Content): this {
    this.texts = [new CodeText(left), new CodeText(right)];
    this.states = this.texts.map((text) => new CodeStates(text));
    this.names.hidden = !this.texts.some((text) => text.isLongNamed);
    this.loose.hidden = !["ptx", "sass", "llvm", "mlir", "types"].includes(this.texts[0].language);
    this.heads.forEach((head, side) => {
      const { name, count: lines } = this.texts[side];
      head.replaceChildren(element("b", "", clean(name || SIDES[side])), ` ${counted(lines, "line")}`);
    });
    const digits = Math.max(3, ...this.texts.map((text) => String(text.number(text.count - 1)).length));
    this.element.classList.toggle("ksc-sass", this.texts[0].language === "sass");
    this.element.style.setProperty("--ksc-digits", `${digits}ch`);
    const names = this.texts.map((text) => clean(text.name) || "code");
    this.element.setAttribute("aria-label", `comparison of ${names.join(" and ")}`);
    this.compare();
    return this;
  }

  private compare() {
    const found = compareTexts(this.texts[0], this.texts[1], this.isLoose);
    this.found = found;
    this.folds = new CodeFolds(found.kinds.length, found.equal);
    Object.assign(this, { at: -1, cursor: found.hunks[0] ?? 0, widest: 0 });
    this.selection.drop();
    this.rows.clear();
    this.scroller.scrollTop = this.aside.scrollLeft = 0;
    this.tell();
    this.laid();
  }

  /** Say what is different. */
  private tell() {
    const { counts, hunks, isCoarse, isByShape } = this.found, told: string[] = [];
    if (counts[PAIR.changed]) told.push(`${count(counts[PAIR.changed])} changed`);
    if (counts[PAIR.left]) told.push(`${count(counts[PAIR.left])} only left`);
    if (counts[PAIR.right]) told.push(`${count(counts[PAIR.right])} only right`);
    this.about.textContent = told.length ? told.join(", ") : "no difference";
    this.scroller.setAttribute("aria-label", `${this.about.textContent}; n and p step through differences`);
    this.hint.textContent = isCoarse ? "compared coarsely: the texts differ too much"
      : isByShape ? "most lines differ: paired by what they do" : "";
    this.hint.title = isCoarse ? "the search for a shortest difference was cut short: some lines need not be marked"
      : isByShape ? "too few lines are equal: lines are paired as if register numbers and labels were" : "";
    this.previous.disabled = this.next.disabled = !hunks.length;
    this.open.hidden = !this.found.equal.length;
    this.where();
  }

  private where() {
    const { hunks } = this.found;
    this.place.textContent = !hunks.length ? "" : this.at < 0 ? counted(hunks.length, "difference")
      : `${count(this.at + 1)} of ${count(hunks.length)}`;
  }

  protected laid() {
    const { folds, found } = this;
    this.lay();
    const places: number[][] = [[], [], [], []];
    found.kinds.forEach((kind, row) => { if (kind !== PAIR.same) places[kind].push(folds.rowOf(row)); });
    this.strip.show(folds.rows.length, [["--ksc-now", places[PAIR.changed]], ["--ksc-removed-word", places[PAIR.left]],
      ["--ksc-added-word", places[PAIR.right]]]);
    this.restyle();
  }

  protected draw(item: number) {
    const row = element("div", "ksc-row ksc-pair"), { found } = this, hidden = this.folds.hides(item);
    row.dataset.item = String(item);
    row.id = `${this.id}-${item}`;
    row.setAttribute("role", "option");
    if (hidden) {
      row.classList.add("ksc-equal");
      row.append(element("span", "ksc-hidden", `… ${counted(hidden + 1, "equal line")}`));
    } else {
      const kind = found.kinds[item], lines = [found.left[item], found.right[item]];
      row.classList.add(KINDS[kind]);
      const marks = kind === PAIR.changed ? this.words(lines) : [[], []];
      row.append(...lines.map((line, side) => this.side(line, side, kind, marks[side])));
    }
    this.style(row, item);
    return row;
  }

  private side(line: number, side: number, kind: number, found: Found[]) {
    const text = this.texts[side], made = element("span", `ksc-side ksc-${SIDES[side]}`);
    if (line < 0) {
      made.classList.add("ksc-gap");
      return made;
    }
    const sign = kind === PAIR.same ? "" : side ? "+" : "−";
    const code = lineElement(text, line, {
      states: this.states[side], isFull: this.isFull, found, marks: ["ksc-word", "ksc-word"],
    });
    made.append(element("span", "ksc-gutter", element("span", "ksc-lineno", String(text.number(line))),
      element("span", "ksc-sign", sign)), code);
    this.widen(widthOf(code));
    return made;
  }

  private words(lines: number[]) {
    const [left, right] = lines.map((line, side) => this.texts[side].line(line));
    return changedWords(this.texts[0].language, left, right, this.isLoose);
  }

  /** Both sides scroll aside together, as far as the widest line that was seen so far. */
  private widen(columns: number) {
    if (columns <= this.widest) return;
    this.widest = columns;
    this.spread();
  }

  private spread() {
    const digits = parseFloat(this.element.style.getPropertyValue("--ksc-digits"));
    this.width.style.width = `calc(${this.widest + digits + 6}ch + ${this.scroller.clientWidth / 2}px)`;
  }

  protected style(row: HTMLElement, item: number) { row.classList.toggle("ksc-cursor", item === this.cursor); }

  /** Go to the next or previous difference. */
  step(by: number) {
    const { hunks } = this.found;
    if (!hunks.length) return;
    this.at = this.at < 0 && by < 0 ? hunks.length - 1 : (this.at + by + hunks.length) % hunks.length;
    this.move(hunks[this.at]);
    this.where();
  }

  move(item: number) {
    this.cursor = item;
    if (this.folds.reveal(item)) this.refold();
    this.rows.reveal(this.folds.rowOf(item));
    this.restyle();
  }

  by(rows: number) {
    const { folds } = this, at = Math.max(0, Math.min(folds.rows.length - 1, folds.rowOf(this.cursor) + rows));
    this.cursor = folds.rows[at];
    this.rows.reveal(at, true);
    this.restyle();
  }

  unfold(item: number) { if (this.folds.toggle(item, false)) this.refold(); }

  private turn(what: "isLoose" | "isFull", pressed: HTMLButtonElement) {
    this[what] = !this[what];
    pressed.setAttribute("aria-pressed", String(this[what]));
    this.widest = 0;
    if (what === "isLoose") this.compare();
    else this.rows.redraw();
    this.live.textContent = this.about.textContent;
  }

  say(text: string) {
    this.live.textContent = text;
    this.notice(text);
  }

  private listen() {
    this.aside.addEventListener("scroll", () => {
      this.body.style.setProperty("--ksc-x", `${-this.aside.scrollLeft}px`);
    }, { passive: true });
    this.scroller.addEventListener("wheel", (event) => {
      const by = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
      if (Math.abs(by) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
      this.aside.scrollLeft += by;
      event.preventDefault();
    }, { passive: false });
    // A selection is of one side: that in which it began.
    this.body.addEventListener("pointerdown", (event) => {
      const side = closest(event.target, ".ksc-side");
      if (side) this.body.classList.toggle("ksc-take-right", side.classList.contains("ksc-right"));
    });
    this.body.addEventListener("click", (event) => {
      const row = closest(event.target, ".ksc-row");
      if (!row) return;
      this.focus();
      if (!getSelection()?.isCollapsed) return;
      this.cursor = Number(row.dataset.item);
      this.unfold(this.cursor);
      this.restyle();
    });
    this.element.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.target !== this.scroller || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = KEYS_OF_DIFF[event.key];
      if (!action) return;
      action(this);
      event.preventDefault();
    });
  }
}

const KINDS = ["ksc-same", "ksc-changed", "ksc-only-left", "ksc-only-right"];
const KEYS_OF_DIFF: Record<string, (view: DiffView) => void> = {
  n: (view) => view.step(1), p: (view) => view.step(-1), N: (view) => view.step(-1),
  ArrowDown: (view) => view.by(1), ArrowUp: (view) => view.by(-1),
  PageDown: (view) => view.by(view.page()), PageUp: (view) => view.by(-view.page()),
  Home: (view) => view.by(-view.folds.rows.length), End: (view) => view.by(view.folds.rows.length),
  ArrowLeft: (view) => { view.aside.scrollLeft -= 60; }, ArrowRight: (view) => { view.aside.scrollLeft += 60; },
  Enter: (view) => view.unfold(view.cursor), " ": (view) => view.unfold(view.cursor),
  Escape: (view) => {
    if (getSelection()?.isCollapsed) view.leave();
    view.selection.drop();
  },
};
