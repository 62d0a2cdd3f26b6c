// What a page of its own holds, by the ids of its elements.

import { unpacked } from "../shared/inflate";

export function partOf(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

export function textOf(id: string): string { return partOf(id).textContent ?? ""; }

/** The bytes that an element holds as base64. */
export function bytesOf(id: string): Uint8Array<ArrayBuffer> { return unpacked(textOf(id).trim()); }

/** Leave the view where whoever looks into the page finds it. */
export function opened(view: object): void { Object.assign(window, { kernelscope: view }); }
