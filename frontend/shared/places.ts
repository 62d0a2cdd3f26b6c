// What the views of a page can show of each other. Their bundles do not know each other, and meet here.

/** A timeline, by keys of specializations: see kernelscope/views/keys.py. */
export interface TimelinePlace {
  readonly root: HTMLElement;
  /** Which of these it has. */
  has(key: string): { compile: boolean; launches: boolean };
  showCompile(key: string): void;
  showLaunches(key: string): void;
}

export interface InspectorPlace {
  readonly root: HTMLElement;
  has(key: string): boolean;
  /** Choose a kernel or a specialization and bring it into sight; whether it is there. */
  show(key: string): boolean;
}

interface Places {
  timelines: Set<TimelinePlace>;
  inspectors: Set<InspectorPlace>;
  /** What the next inspector shows first. */
  wanted: string | null;
}

const PLACES: unique symbol = Symbol.for("kernelscope.places");

function places(): Places {
  const held = globalThis as { [PLACES]?: Places };
  return held[PLACES] ??= { timelines: new Set(), inspectors: new Set(), wanted: null };
}

/** Let others find a timeline; returns the end of it. */
export function offerTimeline(place: TimelinePlace): () => void {
  places().timelines.add(place);
  return () => places().timelines.delete(place);
}

/** Let others find an inspector, and show in it what was asked for before there was one; returns the end of it. */
export function offerInspector(place: InspectorPlace): () => void {
  const { inspectors, wanted } = places();
  inspectors.add(place);
  if (wanted && place.show(wanted)) places().wanted = null;
  return () => inspectors.delete(place);
}

/** Whether an inspector of the same notebook or page has a kernel or a specialization. */
export function hasInspector(from: HTMLElement, key: string): boolean {
  return nearest(places().inspectors, from).some((each) => each.has(key)) || staticOf(from, key) !== null;
}

/** Show a kernel or a specialization in an inspector of the same notebook or page; whether there is one that has it. */
export function inspectHere(from: HTMLElement, key: string): boolean {
  return nearest(places().inspectors, from).some((each) => each.show(key)) || showStatic(from, key);
}

/** What the next inspector shows first. */
export function wantInspected(key: string): void { places().wanted = key; }

/** Whether an inspector was asked for that is not there yet. */
export function isWanted(): boolean { return places().wanted !== null; }

/** The newest timeline of the same notebook or page that has something of a specialization. */
export function timelineOf(from: HTMLElement, key: string): TimelinePlace | null {
  return nearest(places().timelines, from).find((each) => Object.values(each.has(key)).some(Boolean)) ?? null;
}

/** Those that are in the page, in the same notebook where it is one of several; the newest first. */
function nearest<Place extends { root: HTMLElement }>(all: Set<Place>, from: HTMLElement): Place[] {
  const notebook = from.closest(".jp-Notebook");
  return [...all].reverse().filter(({ root }) => root.isConnected && root.closest(".jp-Notebook") === notebook);
}

/** Where the HTML that stands for an inspector where none is live has it. */
function staticOf(from: HTMLElement, key: string): HTMLElement | null {
  const root = from.getRootNode() as ParentNode & Node;
  const all = [...root.querySelectorAll<HTMLElement>(`[data-ks-key="${CSS.escape(key)}"]`)];
  return all.find((each) => each.closest<HTMLElement>(".kscope")?.checkVisibility()) ?? null;
}

function showStatic(from: HTMLElement, key: string): boolean {
  const found = staticOf(from, key);
  if (found) point(found.closest<HTMLElement>("tr, details") ?? found);
  return found !== null;
}

const HERE_MS = 2500;

/** Unfold what is around an element, bring it into sight, and mark it for a moment. */
export function point(to: HTMLElement): void {
  for (let at: Element | null = to; at; at = at.parentElement) if (at instanceof HTMLDetailsElement) at.open = true;
  to.scrollIntoView({ block: "center", behavior: "instant" });
  const stop = to.matches("a, button, summary, [tabindex]") ? to : to.querySelector<HTMLElement>("a, button, [tabindex]");
  if (stop) stop.focus({ preventScroll: true });
  to.classList.add("ks-here");
  setTimeout(() => to.classList.remove("ks-here"), HERE_MS);
}
