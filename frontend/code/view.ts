// The code view: one text with its lines, marks, folds, notes and search. Nothing is fetched, and texts are only texts.

import { button, closest, copyText, element } from "../shared/dom";
import { clean, count, counted } from "../shared/text";
import { CodeFinder } from "./find";
import { CodeFolds, regionsOf } from "./folds";
import { CodeFrame } from "./frame";
import { CodeStates } from "./highlight";
import { CodeText, type Content, type LineShare, lineElement, widthOf } from "./text";

const TITLES: Record<string, string> = { python: "Source", types: "Types", mlir: "MLIR", llvm: "LLVM IR", ptx: "PTX", sass: "SASS" };
const HUES = 8;
let views = 0;

/** How a view tells of what happens in it. */
interface Told {
  /** The number of the line that is pointed at or picked, null for none, with the source line that it came from. */
  onLine?: (line: number | null, how: { picked: boolean; source: number }) => void;
  /** What was done, such as copied. */
  notice?: (text: string) => void;
}

/** Show code in an element; the view is added to what it holds. */
export function codeView(host: HTMLElement, options: Told = {}): CodeView { return new CodeView(host, options); }

export class CodeView extends CodeFrame {
  readonly bar: CodeBar;
  text!: CodeText;
  finder!: CodeFinder;
  /** Whether notes are beside the lines. */
  hasNotes = true;
  /** Where a selection by the keyboard began. */
  anchor: number | null = null;
  /** The lines that are pointed at from outside, and those that are picked, here if `isOwn`. */
  near = new Set<number>();
  picked = new Set<number>();
  isOwn = false;
  private pointed = -1;
  private margin = 0;
  private states!: CodeStates;
  private readonly onLine: NonNullable<Told["onLine"]>;

  constructor(host: HTMLElement, { onLine, notice }: Told) {
    super(host, `ksc-${views += 1}`, notice ?? (() => {}));
    this.onLine = onLine ?? (() => {});
    this.bar = new CodeBar(this);
    this.element.append(this.bar.element, this.scrolled, this.more, this.live);
    codeKeys(this);
    this.listen();
    this.show({ text: "" });
  }

  /** Show a text; marks, folds, the search and the place are as at the start. */
  show(content: Content): this {
    this.text = new CodeText(content);
    this.states = new CodeStates(this.text);
    this.folds = new CodeFolds(this.text.count, regionsOf(this.text));
    this.finder = new CodeFinder(this.text);
    Object.assign(this, { cursor: 0, near: new Set(), picked: new Set(), isOwn: false, pointed: -1, widest: 0 });
    this.selection.drop();
    this.rows.clear();
    const { text } = this, most = Math.max(text.number(text.count - 1), ...Array.from(text.labels ?? []));
    const digits = Math.max(3, String(most).length);
    const furthest = Array.from(text.lines ?? []).reduce((most, each) => Math.max(most, each), 10);
    const origins = text.lines ? String(furthest).length : 0;
    this.margin = digits + 4 + (origins ? origins + 2 : 0) + (text.shares ? SHARE_COLUMNS : 0);
    this.element.style.setProperty("--ksc-digits", `${digits}ch`);
    this.element.style.setProperty("--ksc-origins", origins ? `${origins + 1}ch` : "0px");
    this.element.classList.toggle("ksc-has-origins", origins > 0);
    this.element.classList.toggle("ksc-sass", text.language === "sass");
    this.element.classList.toggle("ksc-has-folds", this.folds.regions.length > 0);
    this.body.style.minWidth = "";
    const beside = text.shares ? `, with ${text.shares.title}` : "";
    const label = `${TITLES[text.language] ?? "Code"}${text.name ? ` of ${clean(text.name)}` : ""}${beside}`;
    this.element.setAttribute("aria-label", label);
    this.scroller.setAttribute("aria-label", `${label}, ${counted(text.count, "line")}`);
    this.scroller.scrollTop = this.scroller.scrollLeft = 0;
    this.bar.show();
    this.laid();
    return this;
  }

  protected laid() {
    this.lay(` of ${counted(this.text.count, "line")}`);
    this.marks();
  }

  protected draw(line: number) {
    const { text, folds, isFull, states } = this, region = folds.head(line);
    const hidden = folds.hides(line), origin = text.origin(line), notes = this.hasNotes ? text.notesOf(line) : null;
    const code = lineElement(text, line, { states, isFull, found: this.finder.in(line) });
    const gutter = element("span", "ksc-gutter", element("span", "ksc-lineno", text.label(line)));
    if (text.lines) {
      const from = element("span", "ksc-origin", origin ? String(origin) : "");
      if (origin) from.title = `from line ${origin} of the source`;
      gutter.append(from);
    }
    if (text.shares) gutter.append(shareBar(text.shares.lines.get(line)));
    const toggle = element("span", "ksc-fold", region ? (hidden ? "▸" : "▾") : "");
    if (region) toggle.title = hidden ? `unfold ${counted(hidden, "line")}` : `fold this ${region.kind}`;
    gutter.append(toggle);
    const row = element("div", "ksc-row", gutter, code);
    if (hidden) row.append(element("span", "ksc-hidden", `… ${counted(hidden, "line")}`));
    if (notes?.length) {
      const note = element("span", "ksc-note", clean(notes.join(" · ")));
      note.title = clean(notes.join("\n"));
      row.append(note);
    }
    if (origin) row.style.setProperty("--ksc-hue", `var(--ksc-hue-${origin % HUES})`);
    row.dataset.item = String(line);
    row.id = `${this.id}-${line}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-posinset", String(line + 1));
    row.setAttribute("aria-setsize", String(text.count));
    this.style(row, line);
    this.widen(widthOf(code) + (hidden ? 16 : 0) + (notes ? 90 : 0));
    return row;
  }

  /** Make room for the widest line that was seen so far. */
  private widen(columns: number) {
    if (columns <= this.widest) return;
    this.widest = columns;
    this.body.style.minWidth = `${columns + this.margin + 2}ch`;
  }

  protected style(row: HTMLElement, line: number) {
    const isPicked = this.picked.has(line);
    row.classList.toggle("ksc-picked", isPicked);
    row.classList.toggle("ksc-near", this.near.has(line));
    row.classList.toggle("ksc-cursor", line === this.cursor);
    row.setAttribute("aria-selected", String(isPicked));
  }

  /** Draw what is marked, in the lines and on the strip. */
  private marks() {
    const { folds, finder } = this, rowOf = (line: number) => folds.rowOf(line);
    const rowsOf = (lines: Iterable<number>) => [...lines].filter((line) => this.text.has(line)).map(rowOf);
    this.restyle();
    this.strip.show(folds.rows.length, [
      ["--ksc-found", rowsOf(new Set(finder.lines))], ["--ksc-near", rowsOf(this.near)],
      ["--ksc-accent", rowsOf(this.picked)], ["--ksc-now", finder.now < 0 ? [] : [rowOf(finder.lines[finder.now])]],
    ]);
  }

  /**
   * Mark lines: what the other side of a pair points at.
   *
   * @param lines - Their numbers; none ends it.
   * @param how - Whether to bring the first one into sight, and whether they are picked, and so stay, or only pointed
   *   at.
   */
  mark(lines: Iterable<number>, { scroll = false, picked = false }: { scroll?: boolean; picked?: boolean } = {}) {
    const wanted = new Set([...lines].map((number) => this.text.index(number)).filter((line) => this.text.has(line)));
    if (picked) Object.assign(this, { picked: wanted, isOwn: false });
    else this.near = wanted;
    if (scroll && wanted.size) {
      const shown = [...wanted], row = (line: number) => this.folds.rowOf(line), [first, last] = this.rows.sight();
      if (!shown.some((line) => this.folds.isSeen(line) && row(line) >= first && row(line) < last - 1)) {
        // The keyboard goes on from there.
        this.cursor = Math.min(...shown);
        this.reveal(this.cursor);
      }
    }
    this.marks();
  }

  /** Bring a line into sight, opening the folds over it. */
  private reveal(line: number, isNear = false) {
    if (this.folds.reveal(line)) this.refold();
    this.rows.reveal(this.folds.rowOf(line), isNear);
  }

  /** Pick a line, or drop it if it is picked already; null drops what is picked. */
  pick(line: number | null) {
    const isDropped = line === null || (this.isOwn && this.picked.has(line));
    Object.assign(this, { picked: new Set(isDropped ? [] : [line]), isOwn: !isDropped });
    this.marks();
    this.tell(isDropped ? null : line, true);
  }

  private tell(line: number | null, picked: boolean) {
    const isLine = line !== null;
    this.onLine(isLine ? this.text.number(line) : null, { picked, source: isLine ? this.text.origin(line) : 0 });
  }

  /** Point at a line, as the mouse does; -1 for none. */
  point(line: number) {
    if (line === this.pointed) return;
    this.pointed = line;
    this.tell(line < 0 ? null : line, false);
  }

  /** Move the keyboard's line. */
  move(line: number, isPointing = true) {
    this.cursor = Math.max(0, Math.min(this.text.count - 1, line));
    this.reveal(this.cursor, true);
    this.restyle();
    if (isPointing) this.point(this.cursor);
  }

  /** Search, and go to the first match from here on. Returns how many there are. */
  find(query: string, isPattern: boolean = this.bar.isPattern()) {
    this.bar.search.value = query;
    this.finder.find(query, isPattern);
    const [first] = this.rows.sight();
    this.found(this.finder.start(this.folds.rows[first] ?? 0));
    return this.finder.count;
  }

  /** The next or previous match. */
  step(isForward: boolean) { this.found(this.finder.step(isForward)); }

  private found(line: number) {
    if (line >= 0) {
      this.cursor = line;
      this.reveal(line);
    }
    this.rows.redraw();
    this.marks();
    this.bar.told();
    if (line >= 0) this.showMatch(line);
  }

  /** Scroll a match that is far to the right into sight. */
  private showMatch(line: number) {
    const match = this.rows.drawn.get(line)?.querySelector(".ksc-now");
    if (!match) return;
    const box = match.getBoundingClientRect(), frame = this.scroller.getBoundingClientRect();
    const left = frame.left + this.margin * 8;
    if (box.right > frame.right - 20 || box.left < left) {
      this.scroller.scrollLeft += box.left - left - (frame.width - this.margin * 8) / 3;
    }
  }

  fold(line: number, isFolded?: boolean) {
    if (!this.folds.toggle(line, isFolded)) return;
    const hidden = this.folds.hides(line);
    this.refold();
    this.say(hidden ? `${counted(hidden, "line")} folded` : "unfolded");
  }

  /** Select all lines between two, both included, for copying. */
  select(from: number, to: number) {
    const [first, last] = [Math.min(from, to), Math.max(from, to)];
    this.selection.lines(this.text, first, last, (line) => this.folds.rows[this.folds.rowOf(line)]);
  }

  /** Copy all of the text. Returns whether the browser did. */
  async copy() {
    const isDone = await copyText(this.text.text);
    this.say(isDone ? `copied ${counted(this.text.count, "line")}` : "the browser refused to copy");
    return isDone;
  }

  say(text: string) {
    this.live.textContent = text;
    this.bar.flash(text);
    this.notice(text);
  }

  private listen() {
    const lineOf = (event: Event) => {
      const row = closest(event.target, ".ksc-row");
      return row ? Number(row.dataset.item) : -1;
    };
    this.body.addEventListener("pointermove", (event) => { if (!event.buttons) this.point(lineOf(event)); });
    this.scroller.addEventListener("pointerleave", () => this.point(-1));
    this.body.addEventListener("pointerdown", (event) => {
      // A range of lines is not also a range of texts.
      if (event.shiftKey && closest(event.target, ".ksc-gutter")) event.preventDefault();
      this.selection.whole = null;
    });
    this.body.addEventListener("click", (event) => {
      const line = lineOf(event);
      if (line < 0 || event.button) return;
      this.focus();
      if (closest(event.target, ".ksc-fold, .ksc-hidden") && this.folds.head(line)) {
        this.fold(line);
        return;
      }
      if (event.shiftKey && closest(event.target, ".ksc-gutter")) {
        this.select(this.cursor, line);
        return;
      }
      if (this.selection.ends()) return;
      this.cursor = line;
      this.pick(line);
    });
  }
}

/** Columns that the shares of lines take. */
const SHARE_COLUMNS = 15;

/** A line's share as text and as a bar of its parts; room for one where it has none. */
function shareBar(share: LineShare | undefined): HTMLElement {
  const made = element("span", "ksc-share");
  if (!share) return made;
  const bar = element("span", "ksc-share-bar");
  bar.style.width = `${share.width * 100}%`;
  for (const [color, part] of share.parts) {
    const drawn = element("i", "");
    drawn.style.background = color;
    drawn.style.flexGrow = String(part);
    bar.append(drawn);
  }
  made.append(element("span", "ksc-share-text", share.text), element("span", "ksc-share-track", bar));
  made.title = clean(share.title);
  return made;
}

// ---- The bar over the code: what it shows, the search, and the buttons ----

const NOTED_MS = 1600;

class CodeBar {
  readonly element: HTMLElement;
  readonly search: HTMLInputElement;
  private readonly about = element("span", "ksc-about");
  private readonly pattern: HTMLButtonElement;
  private readonly count = element("span", "ksc-count");
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly goto: HTMLInputElement;
  private readonly fold: HTMLButtonElement;
  private readonly open: HTMLButtonElement;
  private readonly names: HTMLButtonElement;
  private readonly notes: HTMLButtonElement;
  private readonly copy: HTMLButtonElement;
  private timer = 0;

  constructor(private readonly view: CodeView) {
    this.search = field("ksc-search", "search", "Search");
    this.pattern = button("ksc-button ksc-pattern", ".*", "search for a regular expression (Alt+R)", () => this.turn());
    this.pattern.setAttribute("aria-pressed", "false");
    this.count.setAttribute("role", "status");
    this.previous = button("ksc-button ksc-previous", "↑", "previous match (Shift+Enter, N)", () => view.step(false));
    this.next = button("ksc-button ksc-next", "↓", "next match (Enter, n)", () => view.step(true));
    this.goto = field("ksc-goto", "text", "Line");
    this.goto.inputMode = "numeric";
    this.goto.hidden = true;
    this.fold = button("ksc-button ksc-fold-all", "Fold all", "fold all functions and data", () => view.foldAll(true));
    this.open = button("ksc-button ksc-open-all", "Unfold all", "open all folds", () => view.foldAll(false));
    this.names = button("ksc-button ksc-names", "Full names", "show long mangled names in full",
      () => this.turnNames());
    this.notes = button("ksc-button ksc-notes", "Notes", "show notes after the lines", () => this.turnNotes());
    this.copy = button("ksc-button ksc-copy", "Copy", "copy all of the text", () => view.copy());
    this.element = element("div", "ksc-bar", this.about,
      element("span", "ksc-seek", this.search, this.pattern, this.previous, this.next, this.count), this.goto,
      element("span", "ksc-tools", this.fold, this.open, this.names, this.notes, this.copy));
    this.listen();
  }

  private listen() {
    const { search, goto, view } = this;
    search.addEventListener("input", () => view.find(search.value));
    search.addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (key === "enter") view.step(!event.shiftKey);
      else if (key === "escape") {
        view.find("");
        view.focus();
      } else if (key === "r" && event.altKey) this.turn();
      else return;
      event.preventDefault();
    });
    goto.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      if (event.key === "Enter") this.go(goto.value.trim());
      goto.hidden = true;
      view.focus();
      event.preventDefault();
    });
    goto.addEventListener("blur", () => { goto.hidden = true; });
  }

  /** Ask for a line's number. */
  ask() {
    this.goto.value = "";
    this.goto.hidden = false;
    this.goto.focus();
  }

  private go(value: string) {
    const { view } = this, number = Number(value), { text } = view;
    if (!/^\d+$/.test(value) || !text.has(text.index(number))) {
      view.say(`no line ${value || "without a number"}: they are ${count(text.first)} to ${
        count(text.number(text.count - 1))}`);
      return;
    }
    view.move(text.index(number));
    view.rows.reveal(view.folds.rowOf(text.index(number)));
  }

  isPattern() { return this.pattern.getAttribute("aria-pressed") === "true"; }

  private turn() {
    this.pattern.setAttribute("aria-pressed", String(!this.isPattern()));
    this.view.find(this.search.value);
  }

  private turnNames() {
    const { view } = this;
    view.isFull = !view.isFull;
    this.names.setAttribute("aria-pressed", String(view.isFull));
    view.widest = 0;
    view.body.style.minWidth = "";
    view.rows.redraw();
  }

  private turnNotes() {
    const { view } = this;
    view.hasNotes = !view.hasNotes;
    this.notes.setAttribute("aria-pressed", String(view.hasNotes));
    view.rows.redraw();
  }

  /** Say what the view shows now. */
  show() {
    const { text, folds, isFull, hasNotes } = this.view;
    this.about.textContent = counted(text.count, "line");
    this.search.value = "";
    this.fold.hidden = this.open.hidden = !folds.regions.length;
    this.names.hidden = !text.isLongNamed;
    this.names.setAttribute("aria-pressed", String(isFull));
    this.notes.hidden = !text.notes;
    this.notes.setAttribute("aria-pressed", String(hasNotes));
    this.copy.title = `copy all of ${text.name || "the text"}`;
    this.told();
  }

  told() {
    const { finder } = this.view;
    this.count.textContent = finder.told(count);
    this.count.classList.toggle("ksc-wrong", Boolean(finder.problem));
    this.search.setAttribute("aria-invalid", String(Boolean(finder.problem)));
    this.previous.hidden = this.next.hidden = finder.count < 2;
  }

  /** Show what was done in the place of the number of lines, for a moment. */
  flash(text: string) {
    this.about.textContent = text;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => { this.about.textContent = counted(this.view.text.count, "line"); }, NOTED_MS);
  }
}

// ---- The keys ----

function field(name: string, type: string, label: string): HTMLInputElement {
  const input = element("input", `ksc-input ${name}`);
  Object.assign(input, { type, placeholder: label, spellcheck: false, autocomplete: "off" });
  input.setAttribute("aria-label", label);
  return input;
}

/** Let a view be used by keyboard alone. */
function codeKeys(view: CodeView) {
  view.element.addEventListener("keydown", (event) => {
    // The notebook must not take keys that are meant for the code.
    event.stopPropagation();
    if (event.defaultPrevented) return;
    const hasModifier = event.ctrlKey || event.metaKey, isCode = event.target === view.scroller;
    const action = hasModifier ? (event.altKey ? null : WITH_CTRL[event.key.toLowerCase()])
      : isCode && !event.altKey ? PLAIN[event.key] : null;
    if (action && (isCode || !action.isInCode) && action.run(view, event) !== false) event.preventDefault();
    else if (event.key === "Escape") view.leave();
  });
}

/** What a key does, false where that is nothing, and whether it does so in the code only. */
interface Action {
  run: (view: CodeView, event: KeyboardEvent) => unknown;
  isInCode: boolean;
}

const inCode = (run: Action["run"]): Action => ({ run, isInCode: true });
const anywhere = (run: Action["run"]): Action => ({ run, isInCode: false });

const search = (view: CodeView) => {
  view.bar.search.focus();
  view.bar.search.select();
};

const WITH_CTRL: Record<string, Action> = {
  f: anywhere(search),
  g: anywhere((view) => view.bar.ask()),
  a: inCode((view) => view.select(0, view.text.count - 1)),
  home: inCode((view) => view.move(0)),
  end: inCode((view) => view.move(view.text.count - 1)),
};

/** Move by rows, which folds make fewer than lines; with Shift, select what was moved over. */
const by = (rows: number | ((view: CodeView) => number)) => inCode((view, event) => {
  const { folds } = view, step = typeof rows === "function" ? rows(view) : rows;
  const row = Math.max(0, Math.min(folds.rows.length - 1, folds.rowOf(view.cursor) + step));
  if (event.shiftKey) view.anchor ??= view.cursor;
  else view.anchor = null;
  view.move(folds.rows[row]);
  if (view.anchor !== null) view.select(view.anchor, view.cursor);
  else view.selection.drop();
});

/** Fold or unfold at the keyboard's line; where there is nothing to, scroll aside. */
const fold = (isFolded: boolean) => inCode((view) => {
  const { folds, cursor } = view, head = folds.head(cursor);
  if (isFolded && (!head || folds.hides(cursor)) && view.scroller.scrollLeft === 0) {
    const around = folds.around(head ? cursor - 1 : cursor);
    if (around >= 0 && around !== cursor) view.move(around);
  } else if (head && Boolean(folds.hides(cursor)) !== isFolded) view.fold(cursor, isFolded);
  else view.scroller.scrollLeft += isFolded ? -60 : 60;
});

const pick = inCode((view) => view.pick(view.cursor));

const PLAIN: Record<string, Action> = {
  ArrowDown: by(1), ArrowUp: by(-1), PageDown: by((view) => view.page()), PageUp: by((view) => -view.page()),
  Home: inCode((view) => view.move(0)), End: inCode((view) => view.move(view.text.count - 1)),
  ArrowLeft: fold(true), ArrowRight: fold(false),
  Enter: pick, " ": pick,
  Escape: inCode((view) => {
    view.selection.drop();
    view.point(-1);
    if (!view.picked.size) return false;
    view.pick(null);
    return true;
  }),
  n: inCode((view) => view.step(true)), N: inCode((view) => view.step(false)),
  "/": inCode(search), ":": inCode((view) => view.bar.ask()),
};
