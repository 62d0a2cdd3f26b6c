// What a page of its own holds, by the ids of its elements.

export function partOf(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

export function textOf(id: string): string { return partOf(id).textContent ?? ""; }

/** The bytes that an element holds as base64. */
export function bytesOf(id: string): Uint8Array<ArrayBuffer> {
  const text = textOf(id).trim();
  if ("fromBase64" in Uint8Array) {
    return (Uint8Array as unknown as { fromBase64(text: string): Uint8Array<ArrayBuffer> }).fromBase64(text);
  }
  const packed = atob(text), made = new Uint8Array(packed.length);
  for (let i = 0; i < made.length; i++) made[i] = packed.charCodeAt(i);
  return made;
}

/** Leave the view where whoever looks into the page finds it. */
export function opened(view: object): void { Object.assign(window, { kernelscope: view }); }
