// Written by frontend/generate.py out of the Python package: `make frontend` writes it anew.

/** What stands for a value that was not recorded. */
export const MISSING = "–";

/** The phases of a launch's host time; the last one is time of which the phase is not known. */
export const PHASES = [
  "dispatch",
  "compile",
  "prepare",
  "submit",
  "finish",
  "other"
];

/** Their colors. */
export const PHASE_COLORS = [
  "#2b7bba",
  "#e69f00",
  "#5bbcea",
  "#c66fa0",
  "#8a8f98",
  "#9aa0a8"
];

/** The place of the last one. */
export const PHASE_UNKNOWN = 5;

/** Kernels by their name. */
export const KERNEL_COLORS = [
  "#3f7fc4",
  "#e0a33a",
  "#1f9e89",
  "#c77bb5",
  "#5a6fb0",
  "#d1744a",
  "#74b3c9",
  "#8d8a3f",
  "#9a7fd1",
  "#b9a58a"
];

/** What else the timeline draws. */
export const COLORS = {
  cell: "#9aa7b8",
  compile: "#e69f00",
  pass: "#f0c765",
  call: "#7d8fa6",
  wait: "#c9a9c0",
  asking: "#8fa9c4",
  graph: "#6b9f7f",
  event: "#4f8f8b",
  range: "#76a88f",
  copy: "#6f8f9f",
  memset: "#98a39f",
  garbage: "#7a6bc9"
};

/** Flags of the timeline's rows: their end is not known, */
export const NO_END = 1;

/** nor is their start, */
export const NO_START = 2;

/** or the driver call that asked for them. */
export const NO_CALL = 4;
