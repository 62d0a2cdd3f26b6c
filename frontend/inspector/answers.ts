// Answers as Python packs them: kernelscope/views/inspector/widget.py.

import { inflatedBytes, inflatedText } from "../shared/inflate";
import type { Answer } from "./wire";

/** An answer without what its buffers hold: the text, its source lines, and its ties. */
export type Head = Omit<Answer, "text" | "lines" | "ties">;

export async function answered(head: Head, buffers: readonly BufferSource[]): Promise<Answer> {
  const [text, ...numbers] = await Promise.all([inflatedText(buffers[0]),
    ...[1, 2].map((at) => (buffers[at] ? inflatedBytes(buffers[at]) : null))]);
  const [lines, ties] = numbers.map((each) => (each ? new Int32Array(each) : null));
  return { ...head, text, lines, ties };
}
