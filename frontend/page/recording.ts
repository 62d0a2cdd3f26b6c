// A recording's page: the timeline of what the page holds as text. kernelscope/views/page.py writes the page.

import { type MountFlame, mount } from "../timeline/timeline";
import type { Header } from "../timeline/wire";
import { bytesOf, opened, partOf, textOf } from "./parts";

/** The data come after this script, and may be long. */
const arrived = () => new Promise<void>((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve());
});

/** Show what the page holds; `mountFlame` draws its call paths, where it has any. */
export function showRecording(mountFlame?: MountFlame) {
  const header: Header = JSON.parse(textOf("kernelscope-header"));
  opened(mount(partOf("kernelscope-timeline"), {
    header, payload: arrived().then(() => bytesOf("kernelscope-payload")), mountFlame,
    height: Math.max(300, Math.round(window.innerHeight * 0.62)),
  }));
}
