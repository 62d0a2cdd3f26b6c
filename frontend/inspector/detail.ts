// What is shown of the chosen specialization, or of two that are compared: a row of tabs and a panel.

import { button, closest, element, focusable, rove } from "../shared/dom";
import { CodePane, FORMS, type Page, formsOf, messageOf } from "./code";
import { ComparePane, resourcesPane } from "./compare";
import { timelineOf } from "../shared/places";
import { clean } from "../shared/text";
import { fullSignature, note, sentence, signature } from "./elements";
import { cachePane, launchesPane, passesPane } from "./panes";
import type { CompileParts, Form, Specialization } from "./wire";

type Labels = Record<string, string>;

const FACTS: Labels = { passes: "Passes", launches: "Launches", cache: "Cache" };
const CODE = new Set<string>(Object.keys(FORMS));

export class Detail {
  readonly root: HTMLElement;
  readonly strip = element("div", "ksi-tabs");
  private readonly title = element("div", "ksi-title2");
  private readonly links = element("span", "ksi-links");
  private readonly panel = element("div", "ksi-panel");
  private readonly code: CodePane;
  private readonly diff: ComparePane;
  private tab = "source";
  private pairTab = "resources";
  private readonly order = { isSorted: false };
  private one: Specialization | null = null;
  private two: Specialization | null = null;
  private marks: (number | undefined)[] = [];
  private token: object = {};

  constructor(private readonly page: Page) {
    this.strip.setAttribute("role", "tablist");
    this.panel.setAttribute("role", "tabpanel");
    this.root = element("section", "ksi-detail", this.title, this.strip, this.panel);
    this.root.setAttribute("aria-label", "specialization");
    this.code = new CodePane(page);
    this.diff = new ComparePane(page);
    this.strip.addEventListener("pointerover", (event) => this.foresee(closest(event.target, ".ksi-tab")));
    this.strip.addEventListener("keydown", (event) => this.moving(event));
  }

  destroy() {
    this.code.destroy();
    this.diff.destroy();
  }

  /** Turn the tab that two are shown with at first. */
  beginPair(tab: string) { this.pairTab = tab; }

  /** Show one specialization, or two beside one another; what is shown already stays as it is. */
  show(one: Specialization | null, two: Specialization | null = null): void {
    const marks = [one, two].map((each) => this.page.markOf(each));
    const isSame = one && this.one?.key === one.key && (this.two?.key ?? null) === (two?.key ?? null)
      && marks.every((mark, at) => mark === this.marks?.[at]);
    const labels = labelsOf(one, two);
    this.marks = marks;
    [this.one, this.two] = [one, two];
    this.root.hidden = !one;
    if (!one) return;
    this.head(one, two);
    if (this.tabs().map((each) => each.dataset.tab).join() !== Object.keys(labels).join()) this.makeTabs(labels);
    // Code that is being read stays where it is; facts are drawn anew.
    if (!isSame || !CODE.has(this.current)) this.draw();
  }

  private get current(): string { return this.two ? this.pairTab : this.tab; }

  /** Make the links to what a timeline of the page has of the specialization. */
  drawLinks(): void {
    const { one } = this, on = one && !this.two ? timelineOf(this.root, one.key) : null, found = on?.has(one?.key ?? "");
    const said = `${found?.compile} ${found?.launches}`;
    if (this.links.dataset.of === `${one?.key} ${said}`) return;
    this.links.dataset.of = `${one?.key} ${said}`;
    const link = (text: string, title: string, go: () => void) => focusable(button("ksi-button", text, title, go));
    this.links.replaceChildren(...(one && on ? [
      ...(found?.compile ? [link("Compile in the timeline", "show where it was compiled",
        () => timelineOf(this.root, one.key)?.showCompile(one.key))] : []),
      ...(found?.launches ? [link("Launches in the timeline", "show its first launch, and mark the kernel's others",
        () => timelineOf(this.root, one.key)?.showLaunches(one.key))] : []),
    ] : []));
  }

  private head(one: Specialization, two: Specialization | null) {
    const of = (each: Specialization) => {
      const made = element("span", "ksi-signature", element("b", "", `#${each.number}`), " ", signature(each),
        ...(each.recording ? [" ", element("span", "ksi-soft", `of ${clean(each.recording)}`)] : []));
      made.title = fullSignature(each);
      return made;
    };
    if (!two) {
      const why = one.compiles.at(-1)?.reason;
      this.drawLinks();
      const more = one.more.filter(([, text]) => text).map(([label, text]) => `${label}: ${text}`).join(" · ");
      this.title.replaceChildren(of(one), ...(more ? [element("span", "ksi-soft", more)] : []), this.links, ...(why ? [element("div", "ksi-why", ...sentence(why))] : []));
      return;
    }
    const end = focusable(button("ksi-button", "× end comparison", "Esc", () => this.page.compared(false)));
    this.title.replaceChildren(of(one), element("span", "ksi-soft", "against"), of(two), end);
  }

  private makeTabs(labels: Labels) {
    if (!(this.current in labels)) this[this.two ? "pairTab" : "tab"] = Object.keys(labels)[0];
    this.strip.replaceChildren(...Object.entries(labels).map(([name, label]) => {
      const tab = focusable(button("ksi-tab", label, "", () => this.turn(tab)), -1);
      tab.dataset.tab = name;
      tab.setAttribute("role", "tab");
      return tab;
    }));
  }

  private tabs(): HTMLElement[] { return [...this.strip.querySelectorAll<HTMLElement>(".ksi-tab")]; }

  private turn(tab: HTMLElement | null) {
    const name = tab?.dataset.tab;
    if (!name) return;
    if (this.two) this.pairTab = name;
    else this.tab = name;
    this.draw();
  }

  /** Ask for what is pointed at, so that it is there when it is clicked. Disassembling is not begun by chance. */
  private foresee(tab: HTMLElement | null) {
    const form = tab?.dataset.tab as Form | undefined;
    if (!this.one || this.two || !form || !CODE.has(form) || form === "sass") return;
    this.page.ask({ what: "code", specialization: this.one.key, form, copy: this.code.isCopied(this.one, form) })
      .catch(() => {});
  }

  private moving(event: KeyboardEvent) {
    const to = rove(event, this.tabs(), { vertical: false, horizontal: true });
    if (to) this.turn(to);
    else if (event.key === "ArrowDown") {
      event.preventDefault();
      event.stopPropagation();
      this.enter();
    }
  }

  /** Put the focus into the panel. */
  private enter() {
    if (CODE.has(this.current)) (this.two ? this.diff : this.code).focus();
    else this.panel.querySelector<HTMLElement>("[tabindex]")?.focus({ preventScroll: true });
  }

  focus() { this.tabs().find((each) => each.tabIndex === 0)?.focus({ preventScroll: true }); }

  private draw() {
    const { current, one, two } = this;
    if (!one) return;
    for (const each of this.tabs()) {
      const isHere = each.dataset.tab === current;
      each.setAttribute("aria-selected", String(isHere));
      each.tabIndex = isHere ? 0 : -1;
    }
    this.panel.setAttribute("aria-label", labelsOf(one, two)[current]);
    this.token = {};
    if (two) {
      this.code.destroy();
      this.put(current === "resources" ? resourcesPane(one, two) : this.diff.root);
      if (current !== "resources") this.diff.show(one, two, current as Form);
      return;
    }
    this.diff.destroy();
    if (CODE.has(current)) {
      this.put(this.code.root);
      this.code.show(one, current as Form);
      return;
    }
    this.code.destroy();
    if (current === "launches") this.put(launchesPane(one));
    else if (current === "cache") this.put(cachePane(one));
    else this.passes(one, this.token);
  }

  private async passes(one: Specialization, token: object) {
    this.put(element("div", "ksi-wait"));
    try {
      const answer = await this.page.ask({ what: "compiles", specialization: one.key });
      const compiles: CompileParts[] = JSON.parse(answer.text);
      if (token === this.token) this.put(passesPane(compiles, this.order));
    } catch (problem) {
      if (token === this.token) this.put(note(messageOf(problem)));
    }
  }

  private put(what: Node) {
    if (this.panel.firstChild !== what || this.panel.childNodes.length > 1) this.panel.replaceChildren(what);
  }
}

/** The tabs of one specialization, or of two: the forms that its compiler goes through, and what else is known. */
function labelsOf(one: Specialization | null, two: Specialization | null): Labels {
  const held = [one, two].flatMap((each) => (each ? formsOf(each) : []));
  const forms = Object.fromEntries(Object.entries(FORMS).filter(([form]) => held.includes(form as Form)));
  if (!two) return { ...forms, ...FACTS };
  const { source, types, ...others } = forms;
  // Those of one recording have the same source.
  const own: Labels = source && one?.recording !== two.recording ? { source } : {};
  return { resources: "Types and resources", ...own, ...(types ? { types: "Types by line" } : {}), ...others };
}
