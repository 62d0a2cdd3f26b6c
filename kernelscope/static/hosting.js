// What the live views share in a notebook: the front end's module, the static twin, and when a view is drawn.

const MODULES = Symbol.for("kernelscope.front_ends");

/** Wait until the view is on the screen or near: a notebook of a hundred of them unpacks those that are looked at. */
export function comesNear(el, view) {
  return new Promise((resolve) => {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((each) => each.isIntersecting)) return;
      watch.disconnect();
      resolve();
    }, { rootMargin: "1000px", scrollMargin: "1000px" });
    watch.observe(el);
    view.undo.push(() => watch.disconnect(), resolve);
  });
}

/** The front end's module: imported once a page, however many views there are. */
export async function frontEndOf(model) {
  const shared = await model.widget_manager.get_model(model.get("front_end").replace("IPY_MODEL_", ""));
  const modules = (globalThis[MODULES] ??= new Map());
  const digest = shared.get("digest");
  if (!modules.has(digest)) {
    const url = URL.createObjectURL(new Blob([shared.get("source")], { type: "text/javascript" }));
    modules.set(digest, import(/* webpackIgnore: true */ url).finally(() => URL.revokeObjectURL(url)));
  }
  return modules.get(digest);
}

// JupyterLab and Notebook cut off what is larger than its output; a tooltip of a low view is.
const UNCUT = `
.ks-live, .jp-OutputArea-output:has(> .ks-live), .jp-OutputArea-child:has(> * > .ks-live),
.jp-Cell:not(.jp-mod-outputsScrolled) :is(.jp-OutputArea, .jp-Cell-outputWrapper):has(.ks-live),
.jp-Cell:not(.jp-mod-outputsScrolled):has(.ks-live) { overflow: visible !important; }
.jp-Cell:has(.ks-live :is(.kst-tip, .kst-pin):not([hidden])) { content-visibility: visible; contain: none; z-index: 2; }
`;

/** Hide every copy of the static twin, also one that the notebook puts into the page only later; return the undoing. */
export function hidePicture(name) {
  const style = document.createElement("style");
  style.textContent = `[data-ks-picture="${CSS.escape(name)}"] { display: none !important; }${UNCUT}`;
  document.head.append(style);
  return () => style.remove();
}

/** Say in the view's place why there is none. */
export function say(el, what, problem) {
  const line = document.createElement("div");
  line.textContent = `KernelScope: ${what} cannot be shown: ${problem?.message ?? problem}`;
  el.replaceChildren(line);
  el.classList.add("ks-live");
}
