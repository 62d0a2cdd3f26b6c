// The inspector in a notebook: an anywidget that mounts the shared front end, carries its questions to Python, and the
// answers back. The facts come in a message after the widget was made, and anew when a kernel has something new.

import { comesNear, frontEndOf, hidePicture, say } from "./hosting.js";

const ARRIVES_WITHIN_MS = 400;
const GONE = "This is of a Python kernel that has ended or was restarted, and cannot answer: run the cell again.";

/** One widget; anywidget calls this once a model, and `render` once a view of it. */
export default function inspector() {
  const box = { facts: null, problem: null, isComing: false, listeners: new Set(), asked: new Map(), next: 0 };

  return {
    // Messages can come before there is any view.
    initialize({ model }) {
      const listen = (content, buffers) => take(box, content, buffers);
      // Jupyter lets go of a model when the kernel restarts or ends; what was asked is then never answered.
      const end = () => isGone(box);
      model.on("msg:custom", listen);
      model.on("comm_live_update", end);
      return () => {
        model.off("msg:custom", listen);
        model.off("comm_live_update", end);
      };
    },

    render({ model, el }) {
      const view = { gone: false, undo: [] };
      show(model, el, box, view).catch((problem) => view.gone || say(el, "the inspector", problem));
      return () => {
        view.gone = true;
        for (const undo of view.undo.splice(0).reverse()) undo();
        el.classList.remove("ks-live", "ks-painted");
      };
    },
  };
}

async function take(box, content, buffers) {
  const { kind } = content ?? {};
  if (kind === "coming") box.isComing = true;
  else if (kind === "error") tell(box, null, new Error(content.message));
  else if (kind === "problem") tell(box, box.facts, null, content.message);
  else if (kind === "data") {
    const number = box.number = (box.number ?? 0) + 1;
    const facts = JSON.parse(await inflated(buffers[0]));
    if (number === box.number) tell(box, facts, null);
  } else if (kind === "answer") {
    const { resolve, reject } = box.asked.get(content.id) ?? {};
    box.asked.delete(content.id);
    if (content.error) reject?.(new Error(content.error));
    else resolve?.(await answer(content, buffers));
  }
}

/** No more answers come: say so to whoever waits, and in the views. */
function isGone(box) {
  for (const { reject } of box.asked.values()) reject(new Error(GONE));
  box.asked.clear();
  tell(box, box.facts && { ...box.facts, has_ended: true, can_compile: false }, box.facts ? null : new Error(GONE));
}

function tell(box, facts, problem, said) {
  [box.facts, box.problem] = [facts ?? box.facts, problem];
  for (const each of box.listeners) each(said);
}

async function answer(content, buffers) {
  const [text, lines] = await Promise.all([inflated(buffers[0]), buffers[1] ? inflatedBytes(buffers[1]) : null]);
  return { ...content, text, lines: lines ? new Int32Array(lines) : null };
}

/** Mount the front end, and hide the static twin for as long as it is mounted. */
async function show(model, el, box, view) {
  const [, frontEnd] = await Promise.all([arrived(model, box, view), frontEndOf(model)]);
  if (view.gone || !box.facts) return;
  // A view that has no size yet could not be drawn; the notebook's style hides it until it has this class.
  el.classList.add("ks-live");
  await comesNear(el, view);
  if (view.gone) return;
  const mounted = frontEnd.mount(el, { facts: box.facts, ask: (what) => ask(model, box, what) });
  el.kernelscope = mounted; // for whoever looks into a page
  const renew = (said) => (said ? mounted.notice(said) : mounted.update(box.facts));
  box.listeners.add(renew);
  view.undo.push(() => mounted.destroy(), () => box.listeners.delete(renew));
  el.classList.add("ks-painted");
  view.undo.push(hidePicture(model.get("picture")));
}

/** Ask Python, which answers with the same number; a kernel that is busy answers when it is done. */
function ask(model, box, what) {
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
async function arrived(model, box, view) {
  while (!box.facts && !view.gone) {
    if (box.problem) throw box.problem;
    await new Promise((resolve) => {
      const timer = setTimeout(() => box.isComing || model.send({ kind: "ask", what: "facts" }), ARRIVES_WITHIN_MS);
      const settle = () => { box.listeners.delete(settle); resolve(); };
      box.listeners.add(settle);
      view.undo.push(() => clearTimeout(timer), settle);
    });
  }
}

async function inflatedBytes(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

async function inflated(data) { return new TextDecoder().decode(await inflatedBytes(data)); }
