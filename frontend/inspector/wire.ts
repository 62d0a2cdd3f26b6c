// What kernelscope/views/inspector sends: the facts of all kernels, and answers to what is asked. Null is not known.

/** An argument: its name, its type in short, and as Numba prints it. */
export type Argument = [name: string, brief: string, full: string];

export interface Use {
  grid: number[] | null;
  block: number[] | null;
  cluster: number[] | null;
  shared: number | null;
  launches: number;
  median_ns: number | null;
  execute_ns: number | null;
  occupancy: number | null;
  blocks: number | null;
  limits: string[];
}

export interface Compile {
  id: number | null;
  outcome: string;
  trigger: string;
  ns: number | null;
  code: string | null;
  reason: string | null;
  fix: string | null;
  cell: string | null;
  file: string | null;
  data: string | null;
  key: string | null;
  marker: boolean | null;
}

export interface Specialization {
  key: string;
  number: number;
  signature: string;
  arguments: Argument[];
  cc: string | null;
  regs: number | null;
  shared: number | null;
  local: number | null;
  const: number | null;
  spill_stores: number | null;
  spill_loads: number | null;
  max_threads: number | null;
  cubin: number | null;
  origin: string;
  lcs: boolean | null;
  bound: string | null;
  compile_ns: number | null;
  launches: number;
  host_ns: number | null;
  median_ns: number | null;
  uses: Use[];
  compiles: Compile[];
  code: string[];
}

export interface Kernel {
  key: string;
  name: string;
  framework: string;
  place: string;
  file: string | null;
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
  has_code: boolean;
  kernels: Kernel[];
  is_live: boolean;
  can_compile: boolean;
  /** By specialization, a number of its machine code, which changes with it. */
  marks: Record<string, number>;
  /** The key of the kernel to begin with. */
  first: string | null;
  /** Set here once the kernel of Python has ended. */
  has_ended?: boolean;
}

export type Form = "source" | "types" | "mlir" | "llvm" | "ptx" | "sass";

export type Question =
  | { what: "code"; specialization: string; form: Form; copy?: boolean }
  | { what: "compiles"; specialization: string };

/** The head of an answer, its text, and the source line of each line. */
export interface Answer {
  note: string;
  fix: string;
  first: number;
  name: string;
  has_text: boolean;
  has_lines: boolean;
  text: string;
  lines: Int32Array | null;
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
  | ({ kind: "answer"; id: number; error?: string } & Omit<Answer, "text" | "lines">);
