// A recording's page: the timeline of what the page holds as text. kernelscope/views/page.py writes the page.

import { type MountFlame, mount } from "../timeline/timeline";
import type { Header } from "../timeline/wire";
import { bytesOf, opened, partOf, textOf } from "./parts";

/** The bar, the map, the ruler and the line below, in pixels. */
const AROUND = 190;

/** The data come after this script, and may be long. */
const arrived = () => new Promise<void>((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve());
});

/** Show what the page holds; `mountFlame` draws its call paths, where it has any. */
export function showRecording(mountFlame?: MountFlame) {
  const header: Header = JSON.parse(textOf("kernelscope-header")), host = partOf("kernelscope-timeline");
  // Alone it fills the window, but for what is above and below its lanes.
  const height = "alone" in host.dataset ? Math.max(160, window.innerHeight - AROUND)
    : Math.max(300, Math.round(window.innerHeight * 0.62));
  opened(mount(host, { header, payload: arrived().then(() => bytesOf("kernelscope-payload")), mountFlame, height }));
}
