// The timeline or a graph in a notebook: an anywidget that mounts the shared front end once its data are there.
//
// The widget's state is small on purpose. The front end's text is in one model that all views of a kind share, and the
// data come in a message after the widget was made; a page that was loaded anew asks for them. So neither is kept in
// the kernel, sent again with every reload, or written into a notebook that is saved with its widgets' states.

import type { MountFlame } from "../timeline/timeline";
import type { Header } from "../timeline/wire";
import {
  type Buffer, type Model, type Rendered, type Shown, comesNear, frontEndOf, hidePicture, rendering,
} from "./hosting";
import { wantInspected } from "../shared/places";

const ARRIVES_WITHIN_MS = 400;
/** A Python that is busy, or gone, does not answer. */
const OPENS_WITHIN_MS = 2000;

/** What a front end is given: a header, of the timeline only, and the packed data. */
interface Data {
  header: Header;
  payload: Buffer;
}

type Message = { kind: "coming" } | { kind: "data"; header: Header } | { kind: "error"; message: string }
  | { kind: "inspector"; model: string };

/** What the front ends export. */
interface FrontEnd {
  /** Whether it has no size, and so comes near nothing. */
  drawsNothing?: boolean;
  mount(el: HTMLElement, options: Data & {
    height?: number; inspect?: (key: string) => Promise<boolean>; mountFlame?: MountFlame;
  }): {
    ready: Promise<{ view?: unknown }>;
    destroy(): void;
  };
}

/** One widget's data, and the views that wait for them. */
interface Box {
  data: Data | null;
  isComing: boolean;
  readonly waiting: Set<(problem: string | null) => void>;
}

/** One widget; anywidget calls this once a model. */
export default function widget() {
  const box: Box = { data: null, isComing: false, waiting: new Set() };
  return {
    // Messages can come before there is any view.
    initialize({ model }: { model: Model }) {
      const listen = (content: Message, buffers: Buffer[]) => {
        if (content?.kind === "data") box.data = { header: content.header, payload: buffers[0] };
        else if (content?.kind !== "error") {
          box.isComing ||= content?.kind === "coming";
          return;
        }
        for (const settle of box.waiting) settle(content.kind === "error" ? content.message : null);
        box.waiting.clear();
      };
      model.on("msg:custom", listen);
      return () => model.off("msg:custom", listen);
    },

    render: rendering((model) => model.get("what") ?? "the timeline", (all, view) => show(all, box, view)),
  };
}

/** Mount the front end, and hide the static picture for as long as it is mounted. */
async function show({ model, el }: Rendered, box: Box, view: Shown) {
  const flame = model.get("flame") ? frontEndOf<{ mount: MountFlame }>(model, "flame") : null;
  const [data, frontEnd, flameEnd] = await Promise.all([arrived(model, box, view), frontEndOf<FrontEnd>(model), flame]);
  if (view.gone || !data) return;
  // A view that has no size yet could not be drawn; the notebook's style hides it until it has this class.
  el.classList.add("ks-live");
  if (!frontEnd.drawsNothing) await comesNear(el, view);
  if (view.gone) return;
  const mounted = frontEnd.mount(el, {
    ...data, height: model.get("height") || undefined, inspect: (key) => inspect(model, el, key),
    mountFlame: flameEnd?.mount,
  });
  Object.assign(el, { kernelscope: mounted }); // for whoever looks into a page
  view.undoing.add(() => mounted.destroy());
  const ready = await mounted.ready;
  if (view.gone || !ready.view) return;
  el.classList.add("ks-painted");
  view.undoing.add(hidePicture(model.get("picture")));
}

/** Open an inspector of the same recording below, at a kernel or a specialization; false where Python does not answer. */
async function inspect(model: Model, el: HTMLElement, key: string): Promise<boolean> {
  const id = await new Promise<string | null>((resolve) => {
    const listen = (content: Message) => { if (content?.kind === "inspector") settle(content.model); };
    const timer = setTimeout(() => settle(null), OPENS_WITHIN_MS);
    const settle = (found: string | null) => {
      clearTimeout(timer);
      model.off("msg:custom", listen);
      resolve(found);
    };
    model.on("msg:custom", listen);
    try {
      model.send({ kind: "ask", what: "inspector" });
    } catch {
      settle(null);
    }
  });
  if (id === null || !model.widget_manager.create_view) return false;
  wantInspected(key);
  const view = await model.widget_manager.create_view(await model.widget_manager.get_model(id));
  el.append(view.el);
  view.el.scrollIntoView({ block: "nearest", behavior: "instant" });
  return true;
}

/** The header and the payload; null if the view goes before they come. A kernel that is gone never answers. */
async function arrived(model: Model, box: Box, view: Shown): Promise<Data | null> {
  if (!box.data) {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => { if (!box.isComing) model.send({ kind: "ask" }); }, ARRIVES_WITHIN_MS);
      box.waiting.add((problem) => (problem ? reject(new Error(problem)) : resolve()));
      view.undoing.add(() => clearTimeout(timer), resolve);
    });
  }
  return box.data;
}
