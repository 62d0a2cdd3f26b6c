// The keys of a code view.

import { leaveCode } from "./code_dom.js";

/** Let a view be used by keyboard alone. */
export function codeKeys(view) {
  view.element.addEventListener("keydown", (event) => {
    // The notebook must not take keys that are meant for the code.
    event.stopPropagation();
    if (event.defaultPrevented) return;
    const hasModifier = event.ctrlKey || event.metaKey, isCode = event.target === view.scroller;
    const action = hasModifier ? (event.altKey ? null : WITH_CTRL[event.key.toLowerCase()])
      : isCode && !event.altKey ? PLAIN[event.key] : null;
    if (action && (isCode || !action.isInCode) && action.run(view, event) !== false) event.preventDefault();
    else if (event.key === "Escape") leaveCode(view.element);
  });
}

const inCode = (run) => ({ run, isInCode: true });
const anywhere = (run) => ({ run, isInCode: false });

const search = (view) => {
  view.bar.search.focus();
  view.bar.search.select();
};

const WITH_CTRL = {
  f: anywhere(search),
  g: anywhere((view) => view.bar.ask()),
  a: inCode((view) => view.select(0, view.text.count - 1)),
  home: inCode((view) => view.move(0)),
  end: inCode((view) => view.move(view.text.count - 1)),
};

/** Move by rows, which folds make fewer than lines; with Shift, select what was moved over. */
const by = (rows) => inCode((view, event) => {
  const { folds } = view, step = typeof rows === "function" ? rows(view) : rows;
  const row = Math.max(0, Math.min(folds.rows.length - 1, folds.rowOf(view.cursor) + step));
  if (event.shiftKey) view.anchor ??= view.cursor;
  else view.anchor = null;
  view.move(folds.rows[row]);
  if (event.shiftKey) view.select(view.anchor, view.cursor);
  else view.selection.drop();
});

const page = (view) => {
  const [first, last] = view.rows.sight();
  return Math.max(1, last - first - 2);
};

/** Fold or unfold at the keyboard's line; where there is nothing to, scroll aside. */
const fold = (isFolded) => inCode((view) => {
  const { folds, cursor } = view, head = folds.head(cursor);
  if (isFolded && (!head || folds.hides(cursor)) && view.scroller.scrollLeft === 0) {
    const around = folds.around(head ? cursor - 1 : cursor);
    if (around >= 0 && around !== cursor) view.move(around);
  } else if (head && Boolean(folds.hides(cursor)) !== isFolded) view.fold(cursor, isFolded);
  else view.scroller.scrollLeft += isFolded ? -60 : 60;
});

const pick = inCode((view) => view.pick(view.cursor));

const PLAIN = {
  ArrowDown: by(1), ArrowUp: by(-1), PageDown: by(page), PageUp: by((view) => -page(view)),
  Home: inCode((view) => view.move(0)), End: inCode((view) => view.move(view.text.count - 1)),
  ArrowLeft: fold(true), ArrowRight: fold(false),
  Enter: pick, " ": pick,
  Escape: inCode((view) => {
    view.selection.drop();
    view.point(-1);
    if (!view.picked.size) return false;
    view.pick(null);
    return true;
  }),
  n: inCode((view) => view.step(true)), N: inCode((view) => view.step(false)),
  "/": inCode(search), ":": inCode((view) => view.bar.ask()),
};
