// What kernelscope/views/inspector sends: the facts of all kernels, and answers to what is asked. Null is not known.

/** An argument: its name, its type in short, and as Numba prints it. */
export type Argument = [name: string, brief: string, full: string];

// What Python's dataclasses of these names have: kernelscope/views/inspector/model.py says what each field is.

export interface Use {
  griddim: number[] | null;
  blockdim: number[] | null;
  cluster: number[] | null;
  sharedmem_bytes: number | null;
  launches: number;
  median_ns: number | null;
  execute_ns: number | null;
  occupancy: number | null;
  active_blocks: number | null;
  limited_by: string[];
}

export interface Compile {
  outcome: string;
  trigger: string;
  duration_ns: number;
  reason_code: string;
  reason: string;
  fix: string | null;
  cell: string | null;
  cache_file: string | null;
  cache_data_file: string | null;
  cache_key: string | null;
  lcs_marker: boolean | null;
}

export interface Specialization {
  key: string;
  number: number;
  arguments: Argument[];
  compute_capability: string | null;
  regs: number | null;
  static_shared_bytes: number | null;
  local_bytes: number | null;
  const_bytes: number | null;
  spill_store_bytes: number | null;
  spill_load_bytes: number | null;
  max_threads: number | null;
  cubin_bytes: number | null;
  origin: string;
  launch_config_sensitive: boolean | null;
  /** What only its framework has: labels and texts. */
  more: [label: string, text: string | null][];
  /** The launch configuration that it is bound to. */
  bound: string | null;
  /** Which of two recordings that are compared it is of. */
  recording: string | null;
  compile_ns: number | null;
  launches: number;
  median_ns: number | null;
  uses: Use[];
  compiles: Compile[];
  code: string[];
}

export interface Kernel {
  key: string;
  name: string;
  place: string;
  arguments: string[];
  options: Record<string, string>;
  launches: number;
  compile_ns: number;
  regs: number | null;
  advice: string[];
  specializations: Specialization[];
}

export interface Facts {
  title: string;
  notice: string;
  kernels: Kernel[];
  is_live: boolean;
  can_compile: boolean;
  /** By specialization, a number of its machine code, which changes with it. */
  marks: Record<string, number>;
  /** The key of the kernel to begin with. */
  first: string | null;
  /** The keys of two of its specializations to begin with side by side, and the tab. */
  pair?: [string, string, Form | "resources"] | null;
  /** Set here once the kernel of Python has ended. */
  has_ended?: boolean;
}

export type Form = "source" | "types" | "mlir" | "ttir" | "ttgir" | "llvm" | "ptx" | "sass";

/** A file and a line; the kernel's own file has no name. */
export type Place = [file: string, line: number];

export type Question =
  | { what: "code"; specialization: string; form: Form; copy?: boolean }
  | { what: "compiles"; specialization: string };

/** What several categories have in common: its name, its color, and its label in the legend. */
export type CountGroup = [name: string, color: string, label: string];

/** What is counted by itself: its name, its group's, its label, and one sentence or an empty text. */
export type CountCategory = [name: string, group: string, label: string, meaning: string];

/** What a feature counts by line of a text, from 0, and category. */
export interface LineCounts {
  title: string;
  noun: string;
  total: number;
  groups: CountGroup[];
  categories: CountCategory[];
  lines: number[];
  counts: number[][];
}

/** The head of an answer, its text, and what each line came from. */
export interface Answer {
  note: string;
  fix: string;
  first: number;
  name: string;
  has_text: boolean;
  has_lines: boolean;
  /** The distinct places that lines came from, an inlined function's first, and which of them each line came from. */
  chains: Place[][];
  counts: LineCounts | null;
  text: string;
  lines: Int32Array | null;
  ties: Int32Array | null;
}

/** A part of a compile's time: kind, name, nanoseconds, and what is in it. */
export type Part = [kind: string, name: string, ns: number, inner: Part[]];

/** What an answer to `compiles` holds as JSON. */
export interface CompileParts {
  id: number | null;
  outcome: string;
  ns: number;
  cell: string | null;
  parts: Part[];
}

/** A variable of Numba's type inference, in an answer to the form `types`. */
export interface TypeEntry {
  line: number | string | null;
  name: string;
  type: string;
  brief?: string;
  expr?: string;
  from?: string;
}

/** Messages from Python to the page. */
export type Message =
  | { kind: "coming" | "data" }
  | { kind: "error" | "problem"; message: string }
  | ({ kind: "answer"; id: number; error?: string } & Omit<Answer, "text" | "lines" | "ties">);
