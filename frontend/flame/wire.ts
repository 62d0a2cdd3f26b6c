// What kernelscope/features/call_paths/wire.py packs. Node 0 is the whole; parents come before their children.

export interface Packed {
  metrics: [key: string, label: string, meaning: string][];
  /** What kinds of frames are called. */
  kinds: Record<string, string>;
  frames: [name: string, place: string, kind: string, code: string][];
  /** How many nodes before it each node's parent is, from node 1 on. */
  up: number[];
  /** Each node's frame. */
  frame: number[];
  /** What each node weighs without those below it, by metric, and host time by phase. */
  own: Record<string, number[]>;
  phases: Record<string, number[]>;
  /** What is left out. */
  remark: string;
}
