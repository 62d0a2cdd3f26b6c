// Raw deflate streams, as Python sends them.

/** The bytes that a text holds as base64. */
export function unpacked(text: string): Uint8Array<ArrayBuffer> {
  if ("fromBase64" in Uint8Array) {
    return (Uint8Array as unknown as { fromBase64(text: string): Uint8Array<ArrayBuffer> }).fromBase64(text);
  }
  const packed = atob(text), made = new Uint8Array(packed.length);
  for (let i = 0; i < made.length; i++) made[i] = packed.charCodeAt(i);
  return made;
}

/** The bytes of a packed buffer; of a known length where one is given, which spares a copy. */
export async function inflatedBytes(packed: BufferSource): Promise<ArrayBuffer> {
  return new Response(inflating(packed)).arrayBuffer();
}

/** The text of a packed buffer. */
export async function inflatedText(packed: BufferSource): Promise<string> {
  return new TextDecoder().decode(await inflatedBytes(packed));
}

/** Inflate a buffer of which the length is known, in one piece of memory. */
export async function inflated(packed: BufferSource, length: number): Promise<Uint8Array> {
  const reader = inflating(packed).getReader(), bytes = new Uint8Array(length);
  for (let at = 0; ;) {
    const { done, value } = await reader.read();
    if (done) {
      if (at !== length) throw new Error(`the data has ${at} bytes, not ${length}`);
      return bytes;
    }
    bytes.set(value, at);
    at += value.length;
  }
}

function inflating(packed: BufferSource): ReadableStream<Uint8Array> {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old: it has no DecompressionStream");
  }
  const inflater = new DecompressionStream("deflate-raw"), writer = inflater.writable.getWriter();
  // What is wrong with the data is thrown where it is read.
  writer.write(packed).catch(() => {});
  writer.close().catch(() => {});
  return inflater.readable;
}
