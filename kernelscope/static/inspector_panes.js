// What a specialization ran with and where it came from: its launch configurations, and its compiles with their cache.

import { bytes, dims, element, known, note, plainTable, sentence, share, time } from "./inspector_elements.js";
import { clean, count, exact } from "./text.js";

const OUTCOMES = {
  compiled: "Compiled", disk: "Loaded from the disk cache", wait: "Another thread compiled it meanwhile",
  failed: "Failed",
};
const TRIGGERS = {
  launch: "by a launch", eager: "by a signature in @cuda.jit", specialize: "by specialize()",
  recompile: "by recompile()", device: "for another device", compile: "by compile()",
};

/** What to do where a compile is not recorded. */
export const RECORD_COMPILE = "Record the cell that launches it first, with %%kernelscope, to see it.";

/** The launch configurations of a specialization, with occupancy and what limits it. */
export function launchesPane(each) {
  if (!each.uses.length) {
    return note("It was not launched in what is recorded here.",
      "Record the cell that launches it, with %%kernelscope, to see it.");
  }
  const heads = ["Grid", "Block", "Launches",
    ["Occupancy", "resident threads over the most that a multiprocessor holds: theoretical"],
    ["Limited by", "what keeps it from holding more"], ["Blocks/SM", "blocks that a multiprocessor holds at once"],
    ["Host, median", "own host time of a launch"], ["GPU, median", "time on the GPU of a launch"],
    ["Dynamic shared", "memory a block"], "Cluster"];
  const rows = each.uses.map((use) => ({ cells: [
    dims(use.grid), dims(use.block), count(use.launches), occupancy(use.occupancy),
    use.limits.length ? use.limits.map(clean).join(", ") : ["–", "not known"], missing(use.blocks, count),
    missing(use.median_ns, time), missing(use.execute_ns, time),
    missing(use.shared, (value) => [bytes(value), `${count(value)} bytes`]),
    use.cluster ? dims(use.cluster) : "none",
  ] }));
  return plainTable(heads, rows, ["ksi-text", "ksi-text", "", "", "ksi-text", "", "", "", "", "ksi-text"]);
}

/** The compiles and loads of a specialization: why, from which files, with which key, and what would avoid it. */
export function cachePane(each) {
  if (!each.compiles.length) {
    return note(each.origin === "before"
      ? "It was compiled before anything was recorded: neither its compile nor its cache is known."
      : "No compile of it is recorded.", RECORD_COMPILE);
  }
  const made = element("div", "ksi-compiles");
  for (const compile of each.compiles) made.append(compileCard(compile, each));
  return made;
}

function compileCard(compile, each) {
  const head = element("div", "ksi-compile-head", element("b", "", OUTCOMES[compile.outcome] ?? clean(compile.outcome)),
    ` ${TRIGGERS[compile.trigger] ?? clean(compile.trigger)}`, compile.cell ? ` in ${clean(compile.cell)}` : "",
    ` · ${time(compile.ns)}`);
  head.title = exact(compile.ns);
  const list = element("dl", "ksi-facts");
  const fact = (label, value, what = "not recorded") => {
    const shown = Array.isArray(value) ? value : [value ?? what];
    list.append(element("dt", "", label), element("dd", value === null ? "ksi-absent" : "", ...shown));
  };
  fact("Why", compile.reason ? sentence(compile.reason) : null, "no reason is recorded");
  if (compile.code) fact("Reason code", clean(compile.code));
  if (compile.fix) fact("Fix", sentence(compile.fix));
  fact("Index file", compile.file ? clean(compile.file) : null, "none: not compiled with cache=True");
  if (compile.file || compile.data) fact("Data file", compile.data ? clean(compile.data) : null);
  if (compile.file || compile.key) keyParts(compile.key).forEach(([label, value]) => fact(label, value));
  if (compile.file) {
    fact(".lcs marker", { true: "yes: launch-config sensitive", false: "no" }[compile.marker] ?? null);
  }
  if (each.bound) fact("LC-S key", clean(each.bound));
  const card = element("section", "ksi-compile", head, list);
  card.setAttribute("aria-label", "compile");
  return card;
}

/** A disk cache's key, taken apart where it is the tuple that numba-cuda makes. */
function keyParts(text) {
  if (!text) return [["Key", null]];
  const parts = topLevel(text);
  const labels = ["Key: signature", "Key: toolkit, CC", "Key: numba-cuda", "Key: code, closure", "Key: launch config"];
  if (parts.length < 3 || parts.length > labels.length) return [["Key", clean(text)]];
  return parts.map((part, at) => [labels[at], clean(part)]);
}

/** What stands between the commas of a tuple's text. */
function topLevel(text) {
  const inner = text.trim().replace(/^\(([^]*)\)$/, "$1"), parts = [];
  let depth = 0, from = 0, quote = "";
  for (let at = 0; at <= inner.length; at++) {
    const char = inner[at];
    if (quote) { if (char === quote) quote = ""; } else if (char === "'" || char === '"') quote = char;
    else if ("([{<".includes(char ?? "x")) depth += 1;
    else if (")]}>".includes(char ?? "x")) depth -= 1;
    if (at === inner.length || (char === "," && !depth && !quote)) {
      if (inner.slice(from, at).trim()) parts.push(inner.slice(from, at).trim());
      from = at + 1;
    }
  }
  return parts;
}

function missing(value, words) { return value === null ? ["–", "not recorded"] : known(value, words); }

function occupancy(value) {
  if (value === null) return ["–", "not recorded"];
  const bar = element("span", "ksi-bar"), filled = element("i", "");
  filled.style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
  bar.append(filled);
  return element("span", "ksi-occupancy", bar, share(value));
}

