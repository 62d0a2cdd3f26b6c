// Numbers with their units, and names made harmless to look at.

import { MISSING } from "./generated";

function three(value: number): string {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return MISSING;
  if (ns < 0) return `−${duration(-ns)}`;
  if (Math.round(ns) < 1000) return `${Math.round(ns)} ns`;
  for (const [scale, unit] of [[1e3, "µs"], [1e6, "ms"]] as const) {
    const text = three(ns / scale);
    if (Number(text) < 1000) return `${text} ${unit}`;
  }
  const seconds = ns / 1e9;
  return seconds < 1000 ? `${three(seconds)} s` : `${count(seconds)} s`;
}

/** Nanoseconds in full: `1,234,567 ns`. */
export function exact(ns: number) { return `${count(ns)} ns`; }

export function count(value: number) { return grouped(String(Math.round(value))); }

/** Digits in groups of three; quicker than the browser's own, which takes part of a frame. */
function grouped(digits: string) { return digits.replace(/\B(?=(\d{3})+$)/g, ","); }

export function counted(value: number, noun: string, plural?: string) {
  return `${count(value)} ${value === 1 ? noun : plural ?? `${noun}s`}`;
}

export function size(bytes: number | null | undefined) {
  if (bytes === null || bytes === undefined || bytes < 0) return MISSING;
  if (bytes < 1024) return `${bytes} B`;
  for (const unit of ["KiB", "MiB"]) {
    bytes /= 1024;
    if (bytes < 1023.95) return `${bytes.toFixed(1)} ${unit}`;
  }
  return `${(bytes / 1024).toFixed(1)} GiB`;
}

export function percent(share: number) {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return value < 9.95 && value !== 0 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
}

// Control characters, line separators, invisible characters and bidi overrides, which show a name as something
// that it is not.
const UNSAFE = new RegExp("[\\u0000-\\u0009\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]", "g");

export function clean(text: unknown) {
  return String(text).replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** One line of text. */
export function line(text: unknown) { return clean(text).replace(/\s*\n\s*/g, " ⏎ "); }

/** A time after the start with as many digits as `step` nanoseconds need. */
export function moment(ns: number, step: number) {
  if (!ns) return "0";
  const isLong = step >= 1e9 || (step >= 1e6 && ns >= 1e9);
  const [scale, unit]: [number, string] = isLong ? [1e9, "s"] : step >= 1e3 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  const [whole, rest] = (ns / scale).toFixed(digits).split(".");
  return `${grouped(whole)}${rest ? `.${rest}` : ""} ${unit}`;
}
