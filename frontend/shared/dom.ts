// Elements, events, the theme and the clipboard. Names go in as text nodes only.

export type Child = Node | string | null | undefined;

/** Make an element with a class; strings become text nodes. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, name = "", ...inside: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (tag === "button" || tag === "input") keepShortcutsAway(made);
  made.append(...inside.filter((each) => each !== null && each !== undefined));
  return made;
}

/** JupyterLab's and Notebook's shortcuts come before any listener: they are kept from an element that has this. */
export function keepShortcutsAway(made: Element): void { made.setAttribute("data-lm-suppress-shortcuts", "true"); }

/** Let an element take the focus without Jupyter's shortcuts. */
export function focusable<Made extends HTMLElement>(made: Made, tabIndex = 0): Made {
  made.tabIndex = tabIndex;
  keepShortcutsAway(made);
  return made;
}

/** A button; one that shows a sign and no word is called what its title says. */
export function button(name: string, text: string, title: string, pressed: () => void): HTMLButtonElement {
  const made = element("button", name, text);
  made.type = "button";
  if (title) made.title = title;
  if (title && !/[A-Za-z]/.test(text)) made.setAttribute("aria-label", title);
  made.addEventListener("click", pressed);
  return made;
}

/** A region that tells readers of the screen what happened. */
export function liveRegion(name: string): HTMLElement {
  const live = element("div", name);
  live.setAttribute("aria-live", "polite");
  return live;
}

/** The nearest element around the target of an event, or the target itself, that a selector finds. */
export function closest(target: EventTarget | null, selector: string): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>(selector) : null;
}

/** Move the one tab stop of a group with the arrow keys; returns the element that has it now, or null. */
export function rove(
  event: KeyboardEvent, items: HTMLElement[],
  { vertical = true, horizontal = false }: { vertical?: boolean; horizontal?: boolean } = {},
): HTMLElement | null {
  const here = closest(event.target, "[tabindex]"), at = here ? items.indexOf(here) : -1;
  if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return null;
  const steps: Record<string, number | false> = { ArrowDown: vertical && 1, ArrowUp: vertical && -1,
    ArrowRight: horizontal && 1, ArrowLeft: horizontal && -1, PageDown: vertical && 10, PageUp: vertical && -10 };
  const step = steps[event.key];
  let to: number | null = null;
  if (step) to = Math.max(0, Math.min(items.length - 1, at + step));
  else if (event.key === "Home") to = 0;
  else if (event.key === "End") to = items.length - 1;
  if (to === null) return null;
  event.preventDefault();
  event.stopPropagation();
  for (const [place, each] of items.entries()) each.tabIndex = place === to ? 0 : -1;
  items[to].focus();
  return items[to];
}

/** Where a canvas is drawn. */
export function contextOf(
  canvas: HTMLCanvasElement, settings?: CanvasRenderingContext2DSettings,
): CanvasRenderingContext2D {
  const context = canvas.getContext("2d", settings);
  if (!context) throw new Error("this browser draws no canvas");
  return context;
}

/** Listeners and observers that end together. */
export class Undoing {
  private readonly ends: (() => void)[] = [];

  add(...ends: (() => void)[]): void { this.ends.push(...ends); }

  listen<Kind extends keyof HTMLElementEventMap>(
    target: EventTarget, kind: Kind, heard: (event: HTMLElementEventMap[Kind]) => void,
    options?: AddEventListenerOptions,
  ): void {
    // The DOM's types know the event of a kind for each kind of target, and none for all of them.
    const listener = heard as EventListener;
    target.addEventListener(kind, listener, options);
    this.add(() => target.removeEventListener(kind, listener, options));
  }

  /** Undo all, the last first. */
  run(): void { for (const end of this.ends.splice(0).reverse()) end(); }
}

/** Be told whenever the page's theme may have changed: JupyterLab's, VS Code's, or the system's. Returns the end. */
export function followTheme(changed: () => void): () => void {
  const mutated = new MutationObserver(changed), preference = matchMedia("(prefers-color-scheme: dark)");
  for (const each of [document.documentElement, document.body]) {
    mutated.observe(each, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "theme",
      "data-vscode-theme-kind", "style"] });
  }
  preference.addEventListener("change", changed);
  return () => {
    mutated.disconnect();
    preference.removeEventListener("change", changed);
  };
}

/** Put a text into the clipboard; a page that may not ask for it has an older way. Returns whether it worked. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", "ksc-clipboard"), focused = document.activeElement;
    field.value = text;
    field.setAttribute("aria-hidden", "true");
    // An event of its own, so that no other listener puts its own text there.
    const put = (event: ClipboardEvent) => {
      event.clipboardData?.setData("text/plain", text);
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    document.body.append(field);
    field.select();
    document.addEventListener("copy", put, true);
    const isDone = document.execCommand("copy");
    document.removeEventListener("copy", put, true);
    field.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    return isDone;
  }
}
