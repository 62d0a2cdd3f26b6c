// The timeline in a notebook: an anywidget that mounts the shared front end once its data are there.
//
// The widget's state is small on purpose. The front end's text is in one model that all timelines share, and the data
// come in a message after the widget was made; a page that was loaded anew asks for them. So neither is kept in the
// kernel, sent again with every reload, or written into a notebook that is saved with its widgets' state.

import { comesNear, frontEndOf, hidePicture, say } from "./hosting.js";

const ARRIVES_WITHIN_MS = 400;

/** One widget; anywidget calls this once a model, and `render` once a view of it. */
export default function timeline() {
  const box = { data: null, isComing: false, waiting: new Set() };

  return {
    // Messages can come before there is any view.
    initialize({ model }) {
      const listen = (content, buffers) => {
        if (content?.kind === "data") {
          box.data = { header: content.header, payload: buffers[0] };
        } else if (content?.kind !== "error") {
          box.isComing ||= content?.kind === "coming";
          return;
        }
        for (const settle of box.waiting) settle(content.kind === "error" ? content.message : null);
        box.waiting.clear();
      };
      model.on("msg:custom", listen);
      return () => model.off("msg:custom", listen);
    },

    render({ model, el }) {
      const view = { gone: false, undo: [] };
      show(model, el, box, view).catch((problem) => view.gone || say(el, model.get("what") ?? "the timeline", problem));
      return () => {
        view.gone = true;
        for (const undo of view.undo.splice(0).reverse()) undo();
        el.classList.remove("ks-live", "ks-painted");
      };
    },
  };
}

/** Mount the front end, and hide the static picture for as long as it is mounted. */
async function show(model, el, box, view) {
  const [data, frontEnd] = await Promise.all([arrived(model, box, view), frontEndOf(model)]);
  if (view.gone || !data) return;
  // A view that has no size yet could not be drawn; the notebook's style hides it until it has this class.
  el.classList.add("ks-live");
  await comesNear(el, view);
  if (view.gone) return;
  const mounted = frontEnd.mount(el, { ...data, height: model.get("height") || undefined, theme: "auto" });
  el.kernelscope = mounted; // for whoever looks into a page
  view.undo.push(() => mounted.destroy());
  await mounted.ready;
  if (view.gone || !mounted.view) return;
  el.classList.add("ks-painted");
  view.undo.push(hidePicture(model.get("picture")));
}

/** The header and the payload; null if the view goes before they come. A kernel that is gone never answers. */
async function arrived(model, box, view) {
  if (!box.data) {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => box.isComing || model.send({ kind: "ask" }), ARRIVES_WITHIN_MS);
      box.waiting.add((problem) => (problem ? reject(new Error(problem)) : resolve()));
      view.undo.push(() => clearTimeout(timer), resolve);
    });
  }
  return box.data;
}
