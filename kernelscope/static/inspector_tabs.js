// What is shown of the chosen specialization, or of two that are compared: a row of tabs and a panel.

import { CodePane } from "./inspector_code.js";
import { ComparePane, resourcesPane } from "./inspector_compare.js";
import { element, focusable, fullSignature, note, rove, sentence, signature } from "./inspector_elements.js";
import { cachePane, launchesPane } from "./inspector_panes.js";
import { passesPane } from "./inspector_passes.js";
import { clean } from "./text.js";

const ONE = { source: "Source", types: "Types", mlir: "MLIR", llvm: "LLVM", ptx: "PTX", sass: "SASS", passes: "Passes",
  launches: "Launches", cache: "Cache" };
const TWO = { resources: "Types and resources", types: "Types by line", mlir: "MLIR", llvm: "LLVM", ptx: "PTX",
  sass: "SASS" };
const CODE = new Set(["source", "types", "mlir", "llvm", "ptx", "sass"]);

export class Detail {
  /** @param {{ask: Function, canCompile: boolean, notice: Function, compared: Function}} page - The inspector. */
  constructor(page) {
    this.page = page;
    this.tab = "source";
    this.pairTab = "resources";
    this.order = { isSorted: false };
    this.title = element("div", "ksi-title2");
    this.strip = element("div", "ksi-tabs");
    this.strip.setAttribute("role", "tablist");
    this.panel = element("div", "ksi-panel");
    this.panel.setAttribute("role", "tabpanel");
    this.root = element("section", "ksi-detail", this.title, this.strip, this.panel);
    this.root.setAttribute("aria-label", "specialization");
    this.code = new CodePane(page);
    this.diff = new ComparePane(page);
    this.strip.addEventListener("click", (event) => this.turn(event.target.closest(".ksi-tab")));
    this.strip.addEventListener("pointerover", (event) => this.foresee(event.target.closest(".ksi-tab")));
    this.strip.addEventListener("keydown", (event) => this.moving(event));
  }

  destroy() {
    this.code.destroy();
    this.diff.destroy();
  }

  /** Show one specialization, or two beside one another; what is shown already stays as it is. */
  show(one, two = null) {
    const marks = [one, two].map((each) => this.page.markOf(each));
    const isSame = one && this.one?.key === one.key && (this.two?.key ?? null) === (two?.key ?? null)
      && marks.every((mark, at) => mark === this.marks?.[at]);
    const labels = labelsOf(one, two);
    this.marks = marks;
    [this.one, this.two] = [one, two];
    this.root.hidden = !one;
    if (!one) return;
    this.head();
    if (this.tabs().map((each) => each.dataset.tab).join() !== Object.keys(labels).join()) this.makeTabs(labels);
    // Code that is being read stays where it is; facts are drawn anew.
    if (!isSame || !CODE.has(this.current)) this.draw();
  }

  get current() { return this.two ? this.pairTab : this.tab; }

  head() {
    const of = (each) => {
      const made = element("span", "ksi-signature", element("b", "", `#${each.number}`), " ", signature(each));
      made.title = fullSignature(each);
      return made;
    };
    if (!this.two) {
      const why = this.one.compiles.at(-1)?.reason;
      this.title.replaceChildren(of(this.one), ...(why ? [element("div", "ksi-why", ...sentence(why))] : []));
      return;
    }
    const end = focusable(element("button", "ksi-button", "× end comparison"));
    end.type = "button";
    end.title = "Esc";
    end.addEventListener("click", () => this.page.compared(false));
    this.title.replaceChildren(of(this.one), element("span", "ksi-soft", "against"), of(this.two), end);
  }

  makeTabs(labels) {
    if (!(this.current in labels)) this[this.two ? "pairTab" : "tab"] = Object.keys(labels)[0];
    this.strip.replaceChildren(...Object.entries(labels).map(([name, label]) => {
      const tab = focusable(element("button", "ksi-tab", label), -1);
      tab.type = "button";
      tab.dataset.tab = name;
      tab.setAttribute("role", "tab");
      return tab;
    }));
  }

  tabs() { return [...this.strip.children]; }

  turn(tab) {
    if (!tab) return;
    if (this.two) this.pairTab = tab.dataset.tab;
    else this.tab = tab.dataset.tab;
    this.draw();
  }

  /** Ask for what is pointed at, so that it is there when it is clicked. Disassembling is not begun by chance. */
  foresee(tab) {
    const form = tab?.dataset.tab;
    if (this.two || !CODE.has(form) || form === "sass") return;
    this.page.ask({ what: "code", specialization: this.one.key, form, copy: this.code.isCopied(this.one, form) })
      .catch(() => {});
  }

  moving(event) {
    const to = rove(event, this.tabs(), { vertical: false, horizontal: true });
    if (to) this.turn(to);
    else if (event.key === "ArrowDown") {
      event.preventDefault();
      event.stopPropagation();
      this.enter();
    }
  }

  /** Put the focus into the panel. */
  enter() {
    if (CODE.has(this.current)) (this.two ? this.diff : this.code).focus();
    else this.panel.querySelector("[tabindex]")?.focus({ preventScroll: true });
  }

  focus() { this.tabs().find((each) => each.tabIndex === 0)?.focus({ preventScroll: true }); }

  draw() {
    const { current, one, two } = this;
    for (const each of this.tabs()) {
      const isHere = each.dataset.tab === current;
      each.setAttribute("aria-selected", String(isHere));
      each.tabIndex = isHere ? 0 : -1;
    }
    this.panel.setAttribute("aria-label", (two ? TWO : ONE)[current]);
    this.token = {};
    if (two) {
      this.code.destroy();
      this.put(current === "resources" ? resourcesPane(one, two) : this.diff.root);
      if (current !== "resources") this.diff.show(one, two, current);
      return;
    }
    this.diff.destroy();
    if (CODE.has(current)) {
      this.put(this.code.root);
      this.code.show(one, current);
      return;
    }
    this.code.destroy();
    if (current === "launches") this.put(launchesPane(one));
    else if (current === "cache") this.put(cachePane(one));
    else this.passes(this.token);
  }

  async passes(token) {
    this.put(element("div", "ksi-wait"));
    try {
      const answer = await this.page.ask({ what: "compiles", specialization: this.one.key });
      if (token === this.token) this.put(passesPane(JSON.parse(answer.text), this.order));
    } catch (problem) {
      if (token === this.token) this.put(note(clean(problem.message)));
    }
  }

  put(what) {
    if (this.panel.firstChild !== what || this.panel.childNodes.length > 1) this.panel.replaceChildren(what);
  }
}

/** The tabs of one specialization, or of two; MLIR where a compiler goes through it. */
function labelsOf(one, two) {
  const { mlir, ...others } = two ? TWO : ONE;
  const has = [one, two].some((each) => each?.code.includes("mlir"));
  return has ? (two ? TWO : ONE) : others;
}
