// What the live views share in a notebook: the front end's module, the static version, and when a view is drawn.

import { Undoing } from "../shared/dom";
import { inflatedText } from "../shared/inflate";

/** A buffer of a message. */
export type Buffer = DataView<ArrayBuffer>;

/** A model of ipywidgets, as anywidget hands it to a front end. */
export interface Model {
  get(name: "height"): number | undefined;
  get(name: "source"): Buffer;
  get(name: string): string;
  on(name: string, heard: (...all: never[]) => void): void;
  off(name: string, heard: (...all: never[]) => void): void;
  send(content: object): void;
  widget_manager: { get_model(id: string): Promise<Model>; create_view?(model: Model): Promise<{ el: HTMLElement }> };
}

/** What anywidget gives `render`. */
export interface Rendered {
  model: Model;
  el: HTMLElement;
}

/** Whether a view of a widget is gone, and what is undone then. */
export interface Shown {
  gone: boolean;
  readonly undoing: Undoing;
}

/** What anywidget calls to draw a widget: once a model, and once a view of it; each returns its end. */
export function rendering(name: (model: Model) => string, show: (all: Rendered, view: Shown) => Promise<void>) {
  return (all: Rendered): (() => void) => {
    const { model, el } = all, view: Shown = { gone: false, undoing: new Undoing() };
    show(all, view).catch((problem: unknown) => { if (!view.gone) say(el, name(model), problem); });
    return () => {
      view.gone = true;
      view.undoing.run();
      el.classList.remove("ks-live", "ks-painted");
    };
  };
}

const MODULES: unique symbol = Symbol.for("kernelscope.front_ends");

/** Wait until the view is on the screen or near: a notebook of a hundred of them unpacks those that are looked at. */
export function comesNear(el: HTMLElement, view: Shown) {
  return new Promise<void>((resolve) => {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((each) => each.isIntersecting)) return;
      watch.disconnect();
      resolve();
    }, { rootMargin: "1000px", scrollMargin: "1000px" } as IntersectionObserverInit);
    watch.observe(el);
    view.undoing.add(() => watch.disconnect(), resolve);
  });
}

/** The front end's module, or another that the model names: imported once a page, however many views there are. */
export async function frontEndOf<Module>(model: Model, name = "front_end"): Promise<Module> {
  const shared = await model.widget_manager.get_model(model.get(name).replace("IPY_MODEL_", ""));
  const held = globalThis as { [MODULES]?: Map<string, Promise<unknown>> };
  const modules = held[MODULES] ??= new Map<string, Promise<unknown>>();
  const digest = shared.get("digest");
  let found = modules.get(digest);
  if (!found) {
    found = imported(shared.get("source"));
    modules.set(digest, found);
  }
  return found as Promise<Module>;
}

async function imported(source: Buffer): Promise<unknown> {
  const url = URL.createObjectURL(new Blob([await inflatedText(source)], { type: "text/javascript" }));
  try {
    return await import(/* webpackIgnore: true */ url);
  } finally {
    URL.revokeObjectURL(url);
  }
}

// JupyterLab and Notebook cut off what is larger than its output; a tooltip of a low view is.
const UNCUT = `
.ks-live, .jp-OutputArea-output:has(> .ks-live), .jp-OutputArea-child:has(> * > .ks-live),
.jp-Cell:not(.jp-mod-outputsScrolled) :is(.jp-OutputArea, .jp-Cell-outputWrapper):has(.ks-live),
.jp-Cell:not(.jp-mod-outputsScrolled):has(.ks-live) { overflow: visible !important; }
.jp-Cell:has(.ks-live .kst-tip:not([hidden])) { content-visibility: visible; contain: none; z-index: 2; }
`;

/** Hide every copy of the static version, also one that the notebook puts into the page only later; return the undoing. */
export function hidePicture(name: string): () => void {
  const style = document.createElement("style");
  style.textContent = `[data-ks-picture="${CSS.escape(name)}"] { display: none !important; }${UNCUT}`;
  document.head.append(style);
  return () => style.remove();
}

/** Say in the view's place why there is none. */
function say(el: HTMLElement, what: string, problem: unknown) {
  const line = document.createElement("div");
  const message = problem instanceof Error ? problem.message : String(problem);
  line.textContent = `KernelScope: ${what} cannot be shown: ${message}`;
  el.replaceChildren(line);
  el.classList.add("ks-live");
}
