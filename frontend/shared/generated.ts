// Written by frontend/generate.py out of the Python package: `make frontend` writes it anew.

/** What stands for a value that was not recorded. */
export const MISSING = "–";

/** The phases of a launch's host time; the last one is time of which the phase is not known. */
export const PHASES = [
  "dispatch",
  "compile",
  "compile wait",
  "prepare",
  "submit",
  "measuring",
  "finish",
  "other"
];

/** Their colors. */
export const PHASE_COLORS = [
  "#2b7bba",
  "#e69f00",
  "#742d86",
  "#5bbcea",
  "#a74882",
  "#36634d",
  "#8d8685",
  "#98a0a8"
];

/** The place of the last one. */
export const PHASE_UNKNOWN = 7;

/** Kernels by their name. */
export const KERNEL_COLORS = [
  "#3678f5",
  "#e0a33a",
  "#1f987b",
  "#c075a7",
  "#4f649e",
  "#d1744a",
  "#73b3c8",
  "#83851e",
  "#9b82cf",
  "#bda78b"
];

/** Frames of a flame graph by their kind. */
export const FRAME_COLORS = {
  user: "#e0a33a",
  library: "#a3abb5",
  kernel: "#1f987b",
  unknown: "#8d6fb0"
};

/** Text on a color: the first where it is lighter than INK_FROM. */
export const INKS = [
  "#000000",
  "#ffffff"
];

/** A relative luminance, as WCAG defines it. */
export const INK_FROM = 0.179;

/** What else the timeline draws. */
export const COLORS = {
  cell: "#9aa7b8",
  compile: "#e69f00",
  pass: "#e9c67c",
  call: "#7794c9",
  wait: "#c38ba3",
  asking: "#8fa9c4",
  graph: "#6c8b64",
  event: "#42857d",
  range: "#76a88f",
  copy: "#6b6e76",
  memset: "#98a39f",
  garbage: "#7a6bc9",
  sample: "#4f649e"
};

/** Samples are percents, in so many parts of one. */
export const PARTS = 100;

/** Flags of the timeline's rows: their end is not known, */
export const NO_END = 1;

/** nor is their start, */
export const NO_START = 2;

/** or the driver call that asked for them. */
export const NO_CALL = 4;
