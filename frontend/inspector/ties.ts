// Which lines of different forms of code belong together: those that were made from the same places of the source.

import type { Content } from "../code/text";
import type { Place } from "./wire";

/** Where a line came from: an inlined function's place first, then the calls around it. The kernel's file has no name. */
export type Chain = Place[];

const SEPARATOR = " ‹ ";

/** The lines of one form of code by the places that they came from. */
export class Ties {
  private readonly first: number;
  private readonly keys: string[][];
  /** By chain, the numbers of its lines. */
  private readonly numbers: number[][];

  /** `ties` are the places of the lines of a text, as indices into `chains`; -1 for none. */
  constructor({ first = 1 }: Content, readonly chains: Chain[], private readonly ties: ArrayLike<number>) {
    this.first = first;
    this.keys = chains.map((chain) => chain.map(([file, line]) => `${file}:${line}`));
    this.numbers = chains.map(() => []);
    for (let at = 0; at < ties.length; at++) if (ties[at] >= 0) this.numbers[ties[at]]?.push(at + first);
  }

  /** Of lines that are known by the line of the kernel's file only, 0 for none. */
  static ofLines(content: Content, lines: ArrayLike<number>): Ties {
    const distinct = [...new Set(Array.from(lines))].filter((line) => line > 0);
    const place = new Map(distinct.map((line, at) => [line, at]));
    return new Ties(content, distinct.map((line): Chain => [["", line]]),
      Int32Array.from(lines, (line) => place.get(line) ?? -1));
  }

  /** Of the source itself. */
  static ofSource(content: Content): Ties {
    const { first = 1, text } = content;
    return Ties.ofLines(content, text.split("\n").map((_, at) => at + first));
  }

  /** The last place's line of each line, 0 for none. */
  labels(): number[] { return Array.from(this.ties, (at) => this.chains[at]?.at(-1)?.[1] ?? 0); }

  /** Where a line came from; null where that is not known. */
  of(number: number): Chain | null { return this.chains[this.ties[number - this.first] ?? -1] ?? null; }

  /** The lines that belong to a place: made there or in what was inlined there; where none is, those around it. */
  with(chain: Chain): number[] {
    const wanted = chain.map(([file, line]) => `${file}:${line}`), inside: number[] = [], around: number[][] = [];
    this.keys.forEach((keys, at) => {
      if (isWithin(wanted, keys)) inside.push(at);
      else if (isWithin(keys, wanted)) (around[keys.length] ??= []).push(at);
    });
    const found = inside.length ? inside : around.at(-1) ?? [];
    return found.flatMap((at) => this.numbers[at]);
  }

  /** What is said beside lines of inlined code: file and line of each function but the kernel; once for equal lines. */
  notes(): Record<number, string[]> | undefined {
    const notes: Record<number, string[]> = {}, texts = this.chains.map(inlinedText);
    let last = -1;
    for (let at = 0; at < this.ties.length; at++) {
      const tie = this.ties[at];
      if (tie < 0) continue;
      if (tie !== last && texts[tie]) notes[at + this.first] = [texts[tie]];
      last = tie;
    }
    return Object.keys(notes).length ? notes : undefined;
  }
}

/** Whether all of some places are among others, in order. */
function isWithin(some: string[], all: string[]) {
  let at = 0;
  for (const each of all) if (each === some[at]) at += 1;
  return at === some.length;
}

function inlinedText(chain: Chain): string {
  const places = chain.at(-1)?.[0] === "" ? chain.slice(0, -1) : chain;
  return places.map(([file, line]) => (file ? `${file.split(/[/\\]/).at(-1)}:${line}` : `line ${line}`)).join(SEPARATOR);
}
