// The inspector in a notebook: an anywidget that mounts the shared front end, carries its questions to Python, and the
// answers back. The facts come in a message after the widget was made, and anew when a kernel has something new.

import { answered } from "../inspector/answers";
import type { Answer, Facts, Message, Question } from "../inspector/wire";
import { isWanted } from "../shared/places";
import { inflatedText } from "../shared/inflate";
import {
  type Buffer, type Model, type Rendered, type Shown, comesNear, frontEndOf, hidePicture, rendering,
} from "./hosting";

const ARRIVES_WITHIN_MS = 400;
const GONE = "This is of a Python kernel that has ended or was restarted, and cannot answer: run the cell again.";

/** What the front end exports. */
interface FrontEnd {
  mount(el: HTMLElement, options: { facts: Facts; ask: (what: Question) => Promise<Answer> }): {
    update(facts: Facts): void;
    notice(text: string): void;
    destroy(): void;
  };
}

interface Asked {
  resolve: (answer: Answer) => void;
  reject: (problem: Error) => void;
}

/** One widget's facts, who is told of new ones, and what was asked by its number. */
interface Box {
  facts: Facts | null;
  problem: Error | null;
  isComing: boolean;
  readonly listeners: Set<(said?: string) => void>;
  readonly asked: Map<number, Asked>;
  /** The number of the next question, and of the facts that came last. */
  next: number;
  number: number;
}

/** One widget; anywidget calls this once a model. */
export default function inspector() {
  const box: Box = {
    facts: null, problem: null, isComing: false, listeners: new Set(), asked: new Map(), next: 0, number: 0,
  };
  return {
    // Messages can come before there is any view.
    initialize({ model }: { model: Model }) {
      const listen = (content: Message, buffers: Buffer[]) => { take(box, content, buffers); };
      // Jupyter lets go of a model when the kernel restarts or ends; what was asked is then never answered.
      const end = () => isGone(box);
      model.on("msg:custom", listen);
      model.on("comm_live_update", end);
      return () => {
        model.off("msg:custom", listen);
        model.off("comm_live_update", end);
      };
    },

    render: rendering(() => "the inspector", (all, view) => show(all, box, view)),
  };
}

async function take(box: Box, content: Message | undefined, buffers: Buffer[]) {
  if (content?.kind === "coming") box.isComing = true;
  else if (content?.kind === "error") tell(box, null, new Error(content.message));
  else if (content?.kind === "problem") tell(box, box.facts, null, content.message);
  else if (content?.kind === "data") {
    const number = box.number += 1, facts: Facts = JSON.parse(await inflatedText(buffers[0]));
    if (number === box.number) tell(box, facts, null);
  } else if (content?.kind === "answer") {
    const asked = box.asked.get(content.id);
    box.asked.delete(content.id);
    if (content.error) asked?.reject(new Error(content.error));
    else asked?.resolve(await answered(content, buffers));
  }
}

/** No more answers come: say so to whoever waits, and in the views. */
function isGone(box: Box) {
  for (const { reject } of box.asked.values()) reject(new Error(GONE));
  box.asked.clear();
  tell(box, box.facts && { ...box.facts, has_ended: true, can_compile: false }, box.facts ? null : new Error(GONE));
}

function tell(box: Box, facts: Facts | null, problem: Error | null, said?: string) {
  [box.facts, box.problem] = [facts ?? box.facts, problem];
  for (const each of box.listeners) each(said);
}

/** Mount the front end, and hide the static version for as long as it is mounted. */
async function show({ model, el }: Rendered, box: Box, view: Shown) {
  const [, frontEnd] = await Promise.all([arrived(model, box, view), frontEndOf<FrontEnd>(model)]);
  if (view.gone || !box.facts) return;
  // A view that has no size yet could not be drawn; the notebook's style hides it until it has this class.
  el.classList.add("ks-live");
  // What was asked for with a click is shown wherever it is.
  if (!isWanted()) await comesNear(el, view);
  if (view.gone) return;
  const mounted = frontEnd.mount(el, { facts: box.facts, ask: (what) => ask(model, box, what) });
  Object.assign(el, { kernelscope: mounted }); // for whoever looks into a page
  const renew = (said?: string) => {
    if (said) mounted.notice(said);
    else if (box.facts) mounted.update(box.facts);
  };
  box.listeners.add(renew);
  view.undoing.add(() => mounted.destroy(), () => box.listeners.delete(renew));
  el.classList.add("ks-painted");
  view.undoing.add(hidePicture(model.get("picture")));
}

/** Ask Python, which answers with the same number; a kernel that is busy answers when it is done. */
function ask(model: Model, box: Box, what: Question): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const id = box.next++;
    try {
      model.send({ kind: "ask", id, ...what });
    } catch {
      reject(new Error(GONE));
      return;
    }
    box.asked.set(id, { resolve, reject });
  });
}

/** Wait for the first facts, or the view's end. A kernel that is gone never answers. */
async function arrived(model: Model, box: Box, view: Shown) {
  while (!box.facts && !view.gone) {
    if (box.problem) throw box.problem;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        if (!box.isComing) model.send({ kind: "ask", what: "facts" });
      }, ARRIVES_WITHIN_MS);
      const settle = () => {
        box.listeners.delete(settle);
        resolve();
      };
      box.listeners.add(settle);
      view.undoing.add(() => clearTimeout(timer), settle);
    });
  }
}
