// Numbers with their units, and names made harmless to look at.

import { MISSING } from "./generated";

function three(value: number): string {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** What is unknown, no number, or infinite: a dash, or ∞. */
function special(value: number | null | undefined): string | null {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  return Number.isFinite(value) ? null : value > 0 ? "∞" : "-∞";
}

export function duration(ns: number | null | undefined): string {
  const said = special(ns);
  if (said !== null || ns === null || ns === undefined) return said ?? MISSING;
  if (ns < -0.5) return `-${duration(-ns)}`;
  if (Math.round(ns) < 1000) return `${Math.round(Math.max(ns, 0))} ns`;
  for (const [scale, unit] of [[1e3, "µs"], [1e6, "ms"]] as const) {
    const text = three(ns / scale);
    if (Number(text) < 1000) return `${text} ${unit}`;
  }
  const seconds = ns / 1e9;
  return seconds < 1000 ? `${three(seconds)} s` : `${count(seconds)} s`;
}

/** Nanoseconds in full: `1,234,567 ns`. */
export function exact(ns: number) { return `${count(ns)} ns`; }

export function count(value: number) {
  const said = special(value);
  if (said !== null) return said;
  const whole = Math.round(value);
  return grouped(String(Number.isSafeInteger(whole) ? whole : BigInt(whole)));
}

/** Digits in groups of three; quicker than the browser's own, which takes part of a frame. */
function grouped(digits: string) { return digits.replace(/\B(?=(\d{3})+$)/g, ","); }

export function counted(value: number, noun: string, plural?: string) {
  return `${count(value)} ${value === 1 ? noun : plural ?? `${noun}s`}`;
}

/** Bytes; those of a column are -1 where they were not recorded. */
export function size(bytes: number | null | undefined): string {
  const said = special(bytes);
  if (said !== null || bytes === null || bytes === undefined || bytes === -1) return said ?? MISSING;
  if (bytes < -0.5) return `-${size(-bytes)}`;
  if (Math.round(bytes) < 1024) return `${Math.round(Math.max(bytes, 0))} B`;
  for (const unit of ["KiB", "MiB"]) {
    bytes /= 1024;
    if (bytes < 1023.95) return `${decimal(bytes)} ${unit}`;
  }
  return `${decimal(bytes / 1024)} GiB`;
}

/** A number with one decimal. */
function decimal(value: number) {
  const tenths = Math.round(value * 10);
  return `${count(Math.floor(tenths / 10))}.${tenths % 10}`;
}

export function percent(share: number): string {
  const said = special(share);
  if (said !== null) return said;
  const value = Math.abs(share * 100), sign = share < 0 ? "-" : "";
  if (value > 0 && value < 0.1) return sign ? "> -0.1 %" : "< 0.1 %";
  return value < 9.95 && value !== 0 ? `${sign}${value.toFixed(1)} %` : `${sign}${count(value)} %`;
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
