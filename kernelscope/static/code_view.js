// The code view: one text with its lines, marks, folds, notes and search. Nothing is fetched, and texts are only texts.

import { codeNode, copyText, followGround } from "./code_dom.js";
import { codeBar } from "./code_bar.js";
import { CodeFinder } from "./code_find.js";
import { CodeFolds, regionsOf } from "./code_folds.js";
import { CodeStates } from "./code_highlight.js";
import { codeKeys } from "./code_keys.js";
import { lineElement, widthOf } from "./code_line.js";
import { CodeRows } from "./code_rows.js";
import { CodeSelection } from "./code_select.js";
import { CodeStrip } from "./code_strip.js";
import { CodeText } from "./code_text.js";
import { clean, count, counted } from "./text.js";

/** Rows that are seen of a longer text until it is unfolded to the height of the window. */
const ROWS = 28;
const TITLES = { python: "Source", types: "Types", llvm: "LLVM IR", ptx: "PTX", sass: "SASS" };
const HUES = 8;
let views = 0;

/**
 * Show code in an element.
 *
 * @param {HTMLElement} host - Where; the view is added to what it holds.
 * @param {{onLine?: (line: number | null, how: {picked: boolean, source: number}) => void,
 *          notice?: (text: string) => void}} options - Told the number of the line that is pointed at or picked, null
 *   for none, with the source line that it came from; told what was done, such as copied.
 * @returns {CodeView} With `show(content)`, `mark(lines, {scroll, picked})`, `focus()`, `find(query)`, `destroy()`,
 *   `element`.
 */
export function codeView(host, options = {}) { return new CodeView(host, options); }

class CodeView {
  constructor(host, { onLine, notice }) {
    this.id = `ksc-${views += 1}`;
    this.onLine = onLine ?? (() => {});
    this.notice = notice ?? (() => {});
    this.isFull = false;
    this.hasNotes = true;
    this.bar = codeBar(this);
    this.body = codeNode("div", "ksc-lines");
    this.scroller = codeNode("div", "ksc-scroll", this.body);
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "listbox");
    this.scroller.setAttribute("data-lm-suppress-shortcuts", "true");
    this.strip = new CodeStrip(this.scroller);
    this.element = codeNode("div", "ksc", this.bar.element,
      codeNode("div", "ksc-frame", this.scroller, this.strip.element), this.bar.more, this.bar.live);
    this.element.setAttribute("data-lm-suppress-shortcuts", "true");
    this.element.setAttribute("role", "region");
    host.append(this.element);
    this.rows = new CodeRows(this.scroller, this.body, (line) => this.draw(line));
    this.selection = new CodeSelection(this.body, this.rows, (text) => this.say(`copied ${linesIn(text)}`));
    this.ground = followGround(this.element);
    this.repaint = new MutationObserver(() => this.strip.paint());
    this.repaint.observe(this.element, { attributes: true, attributeFilter: ["class"] });
    codeKeys(this);
    this.listen();
    this.show({ text: "" });
  }

  /** Show a text; marks, folds, the search and the place are as at the start. */
  show(content) {
    this.text = new CodeText(content);
    this.states = new CodeStates(this.text);
    this.folds = new CodeFolds(this.text.count, regionsOf(this.text));
    this.finder = new CodeFinder(this.text);
    Object.assign(this, { cursor: 0, near: new Set(), picked: new Set(), isOwn: false, pointed: -1, widest: 0 });
    this.selection.drop();
    this.rows.clear();
    const { text } = this, digits = Math.max(3, String(text.number(text.count - 1)).length);
    const furthest = text.lines?.reduce((most, each) => Math.max(most, each), 10);
    const origins = text.lines ? String(furthest).length : 0;
    this.margin = digits + 4 + (origins ? origins + 2 : 0);
    this.element.style.setProperty("--ksc-digits", `${digits}ch`);
    this.element.style.setProperty("--ksc-origins", origins ? `${origins + 1}ch` : "0px");
    this.element.classList.toggle("ksc-has-origins", origins > 0);
    this.element.classList.toggle("ksc-sass", text.language === "sass");
    this.element.classList.toggle("ksc-has-folds", this.folds.regions.length > 0);
    this.body.style.minWidth = "";
    const label = `${TITLES[text.language] ?? "Code"}${text.name ? ` of ${clean(text.name)}` : ""}`;
    this.element.setAttribute("aria-label", label);
    this.scroller.setAttribute("aria-label", `${label}, ${counted(text.count, "line")}`);
    this.scroller.scrollTop = this.scroller.scrollLeft = 0;
    this.bar.show();
    this.laid();
    return this;
  }

  /** Lay the rows anew, after a fold or a new text. */
  laid() {
    const { folds } = this, isLong = folds.rows.length > ROWS;
    this.rows.set(folds.rows, (line) => (folds.isSeen(line) ? folds.rowOf(line) : -1));
    this.element.classList.toggle("ksc-long", isLong);
    this.bar.resized(isLong);
    this.marks();
  }

  draw(line) {
    const { text, folds, isFull, states } = this, number = text.number(line), region = folds.head(line);
    const hidden = folds.hides(line), origin = text.origin(line), notes = this.hasNotes ? text.notesOf(line) : null;
    const code = lineElement(text, line, { states, isFull, found: this.finder.in(line) });
    const gutter = codeNode("span", "ksc-gutter", codeNode("span", "ksc-lineno", String(number)));
    if (text.lines) {
      const from = codeNode("span", "ksc-origin", origin ? String(origin) : "");
      if (origin) from.title = `from line ${origin} of the source`;
      gutter.append(from);
    }
    const toggle = codeNode("span", "ksc-fold", region ? (hidden ? "▸" : "▾") : "");
    if (region) toggle.title = hidden ? `unfold ${counted(hidden, "line")}` : `fold this ${region.kind}`;
    gutter.append(toggle);
    const row = codeNode("div", "ksc-row", gutter, code);
    if (hidden) row.append(codeNode("span", "ksc-hidden", `… ${counted(hidden, "line")}`));
    if (notes?.length) {
      const note = codeNode("span", "ksc-note", clean(notes.join(" · ")));
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
  widen(columns) {
    if (columns <= this.widest) return;
    this.widest = columns;
    this.body.style.minWidth = `${columns + this.margin + 2}ch`;
  }

  style(row, line) {
    const isPicked = this.picked.has(line);
    row.classList.toggle("ksc-picked", isPicked);
    row.classList.toggle("ksc-near", this.near.has(line));
    row.classList.toggle("ksc-cursor", line === this.cursor);
    row.setAttribute("aria-selected", String(isPicked));
  }

  restyle() {
    for (const [line, row] of this.rows.drawn) this.style(row, line);
    this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.cursor}`);
  }

  /** Draw what is marked, in the lines and on the strip. */
  marks() {
    const { folds, finder } = this, rowOf = (line) => folds.rowOf(line);
    const rowsOf = (lines) => [...lines].filter((line) => this.text.has(line)).map(rowOf);
    this.restyle();
    this.strip.show(folds.rows.length, [
      ["--ksc-found", rowsOf(new Set(finder.lines))], ["--ksc-near", rowsOf(this.near)],
      ["--ksc-accent", rowsOf(this.picked)], ["--ksc-now", finder.now < 0 ? [] : [rowOf(finder.lines[finder.now])]],
    ]);
  }

  /**
   * Mark lines: what the other side of a pair points at.
   *
   * @param {Iterable<number>} lines - Their numbers; none ends it.
   * @param {{scroll?: boolean, picked?: boolean}} how - Whether to bring the first one into sight, and whether they
   *   are picked, and so stay, or only pointed at.
   */
  mark(lines, { scroll = false, picked = false } = {}) {
    const wanted = new Set([...lines].map((number) => this.text.index(number)).filter((line) => this.text.has(line)));
    if (picked) Object.assign(this, { picked: wanted, isOwn: false });
    else this.near = wanted;
    if (scroll && wanted.size) {
      const shown = [...wanted], row = (line) => this.folds.rowOf(line), [first, last] = this.rows.sight();
      if (!shown.some((line) => this.folds.isSeen(line) && row(line) >= first && row(line) < last - 1)) {
        this.reveal(Math.min(...shown));
      }
    }
    this.marks();
  }

  /** Bring a line into sight, opening the folds over it. */
  reveal(line, isNear = false) {
    if (this.folds.reveal(line)) this.refold();
    this.rows.reveal(this.folds.rowOf(line), isNear);
  }

  /** Rows after folds changed. */
  refold() {
    this.rows.redraw();
    this.laid();
  }

  /** Pick a line, or drop it if it is picked already; null drops what is picked. */
  pick(line) {
    const isDropped = line === null || (this.isOwn && this.picked.has(line));
    Object.assign(this, { picked: new Set(isDropped ? [] : [line]), isOwn: !isDropped });
    this.marks();
    this.tell(isDropped ? null : line, true);
  }

  tell(line, picked) {
    const isLine = line !== null;
    this.onLine(isLine ? this.text.number(line) : null, { picked, source: isLine ? this.text.origin(line) : 0 });
  }

  /** Point at a line, as the mouse does; -1 for none. */
  point(line) {
    if (line === this.pointed) return;
    this.pointed = line;
    this.tell(line < 0 ? null : line, false);
  }

  /** Move the keyboard's line. */
  move(line, isPointing = true) {
    this.cursor = Math.max(0, Math.min(this.text.count - 1, line));
    this.reveal(this.cursor, true);
    this.restyle();
    if (isPointing) this.point(this.cursor);
  }

  /** Search, and go to the first match from here on. Returns how many there are. */
  find(query, isPattern = this.bar.isPattern()) {
    this.bar.search.value = query;
    this.finder.find(query, isPattern);
    const [first] = this.rows.sight();
    this.found(this.finder.start(this.folds.rows[first] ?? 0));
    return this.finder.count;
  }

  /** The next or previous match. */
  step(isForward) { this.found(this.finder.step(isForward)); }

  found(line) {
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
  showMatch(line) {
    const match = this.rows.drawn.get(line)?.querySelector(".ksc-now");
    if (!match) return;
    const box = match.getBoundingClientRect(), frame = this.scroller.getBoundingClientRect();
    const left = frame.left + this.margin * 8;
    if (box.right > frame.right - 20 || box.left < left) {
      this.scroller.scrollLeft += box.left - left - (frame.width - this.margin * 8) / 3;
    }
  }

  fold(line, isFolded) {
    if (!this.folds.toggle(line, isFolded)) return;
    const hidden = this.folds.hides(line);
    this.refold();
    this.say(hidden ? `${counted(hidden, "line")} folded` : "unfolded");
  }

  foldAll(isFolded) {
    if (isFolded) this.folds.foldAll();
    else this.folds.openAll();
    this.refold();
    this.rows.reveal(this.folds.rowOf(this.cursor));
  }

  /** Select all lines between two, both included, for copying. */
  select(from, to) {
    const [first, last] = [Math.min(from, to), Math.max(from, to)];
    this.selection.lines(this.text, first, last, (line) => this.folds.rows[this.folds.rowOf(line)]);
  }

  /** Copy all of the text. Returns whether the browser did. */
  async copy() {
    const isDone = await copyText(this.text.text);
    this.say(isDone ? `copied ${counted(this.text.count, "line")}` : "the browser refused to copy", true);
    return isDone;
  }

  say(text) {
    this.bar.live.textContent = text;
    this.bar.flash(text);
    this.notice(text);
  }

  focus() { this.scroller.focus({ preventScroll: true }); }

  listen() {
    const lineOf = (event) => {
      const row = event.target.closest?.(".ksc-row");
      return row ? Number(row.dataset.item) : -1;
    };
    this.body.addEventListener("pointermove", (event) => { if (!event.buttons) this.point(lineOf(event)); });
    this.scroller.addEventListener("pointerleave", () => this.point(-1));
    this.body.addEventListener("pointerdown", (event) => {
      // A range of lines is not also a range of texts.
      if (event.shiftKey && event.target.closest(".ksc-gutter")) event.preventDefault();
      this.selection.whole = null;
    });
    this.body.addEventListener("click", (event) => {
      const line = lineOf(event);
      if (line < 0 || event.button) return;
      this.focus();
      if (event.target.closest(".ksc-fold, .ksc-hidden") && this.folds.head(line)) {
        this.fold(line);
        return;
      }
      if (event.shiftKey && event.target.closest(".ksc-gutter")) {
        this.select(this.cursor, line);
        return;
      }
      if (!getSelection().isCollapsed && this.selection.ends()) return;
      this.cursor = line;
      this.pick(line);
    });
  }

  destroy() {
    for (const part of [this.rows, this.strip, this.selection]) part.destroy();
    this.ground.end();
    this.repaint.disconnect();
    this.element.remove();
  }
}

function linesIn(text) {
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return lines > 1 ? counted(lines, "line") : `${count(text.length)} characters`;
}
