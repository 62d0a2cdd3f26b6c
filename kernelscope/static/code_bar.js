// The bar over a code view: what it shows, the search, and the buttons.

import { codeButton, codeInput, codeLive, codeNode } from "./code_dom.js";
import { count, counted } from "./text.js";

const NOTED_MS = 1600;

/** Make the bar of a view, with the button below the code and the region that tells what happened. */
export function codeBar(view) { return new CodeBar(view); }

class CodeBar {
  constructor(view) {
    this.view = view;
    this.live = codeLive();
    this.about = codeNode("span", "ksc-about");
    this.search = codeInput("ksc-search", "search", "Search");
    this.pattern = codeButton("ksc-pattern", ".*", "search for a regular expression (Alt+R)", () => this.turn());
    this.pattern.setAttribute("aria-pressed", "false");
    this.count = codeNode("span", "ksc-count");
    this.count.setAttribute("role", "status");
    this.previous = codeButton("ksc-previous", "↑", "previous match (Shift+Enter, N)", () => view.step(false));
    this.next = codeButton("ksc-next", "↓", "next match (Enter, n)", () => view.step(true));
    this.goto = codeInput("ksc-goto", "text", "Line");
    this.goto.inputMode = "numeric";
    this.goto.hidden = true;
    this.fold = codeButton("ksc-fold-all", "Fold all", "fold all functions and data", () => view.foldAll(true));
    this.open = codeButton("ksc-open-all", "Unfold all", "open all folds", () => view.foldAll(false));
    this.names = codeButton("ksc-names", "Full names", "show long mangled names in full", () => this.turnNames());
    this.notes = codeButton("ksc-notes", "Notes", "show notes after the lines", () => this.turnNotes());
    this.copy = codeButton("ksc-copy", "Copy", "copy all of the text", () => view.copy());
    this.more = codeButton("ksc-more", "", "", () => this.stretch());
    this.element = codeNode("div", "ksc-bar", this.about,
      codeNode("span", "ksc-seek", this.search, this.pattern, this.previous, this.next, this.count), this.goto,
      codeNode("span", "ksc-tools", this.fold, this.open, this.names, this.notes, this.copy));
    this.listen();
  }

  listen() {
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

  go(value) {
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

  turn() {
    this.pattern.setAttribute("aria-pressed", String(!this.isPattern()));
    this.view.find(this.search.value);
  }

  turnNames() {
    const { view } = this;
    view.isFull = !view.isFull;
    this.names.setAttribute("aria-pressed", String(view.isFull));
    view.widest = 0;
    view.body.style.minWidth = "";
    view.rows.redraw();
  }

  turnNotes() {
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

  /** Offer to unfold a long text to the window's height, or to fold it again. */
  resized(isLong) {
    const isTall = this.view.element.classList.contains("ksc-tall");
    this.more.hidden = !isLong;
    this.more.textContent = isTall ? "Show less" : `Show more of ${counted(this.view.text.count, "line")}`;
    this.more.setAttribute("aria-expanded", String(isTall));
  }

  stretch() {
    const { element } = this.view;
    element.classList.toggle("ksc-tall");
    this.resized(true);
    this.view.rows.update();
    element.scrollIntoView({ block: "nearest" });
  }

  /** Show what was done in the place of the number of lines, for a moment. */
  flash(text) {
    this.about.textContent = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.about.textContent = counted(this.view.text.count, "line"); }, NOTED_MS);
  }
}
