// What the tooltip tells of an event: everything that the recording knows of it.

import { NO_CALL, NO_END, NO_START, PARTS, PHASES, PHASE_COLORS } from "../shared/generated";
import { clean, count, duration, exact, line, moment, size } from "../shared/text";
import { ENDED, type Model, type Table } from "./model";
import { LaunchTrack, SEGMENTS, type Track } from "./tracks";
import type { TimelineEvent } from "./view";
import type { Compile, TableName } from "./wire";

/** The name of an event, as its bar shows it. */
export function nameOf(model: Model, table: TableName, row: number): string {
  const held = model.table(table), facts = model.facts;
  switch (table) {
    case "cells": return line(facts.cells[held.at("id", row)].label);
    case "launches": return line(facts.kernels[held.at("dispatcher_id", row)].name);
    case "compiles": return line(`${OUTCOMES[facts.compiles[row].outcome] ?? "compile"} ${
      facts.kernels[held.at("dispatcher_id", row)].name}`);
    case "gpu": return activityName(model, held, row);
    case "ranges": return line(model.word("ranges", "name", row) || "(no message)");
    default: return line(model.word(table, "name", row) ?? "");
  }
}

/** A kernel's name as in Python where a launch of ours made it, else without its parameters and namespaces. */
function activityName(model: Model, table: Table, row: number) {
  const kernel = table.at("kernel", row);
  if (kernel >= 0) return line(model.facts.kernels[kernel].name);
  return shortName(model.word("gpu", "name", row) ?? "");
}

const short = new Map<string, string>();

/** A kernel's name without return type, scopes, template arguments and parameters, as kernelscope/units.py has it. */
export function shortName(name: string): string {
  let found = short.get(name);
  if (found === undefined) {
    found = shortened(line(name.slice(0, 20_000)));
    short.set(name, found);
  }
  return found;
}

function shortened(name: string): string {
  if (name.includes("<locals>.")) return name.split("<locals>.").pop() ?? name;
  if (!/::|[(<]|^void /.test(name)) return name;
  let kept = "", depth = 0;
  for (const [token] of name.replaceAll("(anonymous namespace)::", "").matchAll(/[<>()]|[^<>()]+/g)) {
    if (token === "<" || token === "(") depth += 1;
    else if (token === ">" || token === ")") depth = Math.max(depth - 1, 0);
    else if (!depth) kept += token;
  }
  return kept.trim().split(" ").pop()?.split("::").pop() || name;
}

/** What a word of a column is called; null where it has no other name. */
function named(word: string | null, names: Record<string, string>): string | null { return names[word ?? ""] ?? null; }

const OUTCOMES: Record<string, string> = {
  compiled: "compile", disk: "load", wait: "wait for", failed: "failed compile",
};

export interface Description {
  title: string;
  kind: string;
  rows: [label: string, value: string, color?: string][];
}

/** Title, kind and rows of label and value; a row may have a color. */
export function describe({ table, id, track, index }: TimelineEvent, model: Model): Description {
  const rows: Description["rows"] = [];
  const add: Add = (label, value, color) => {
    if (value !== null && value !== undefined && value !== "") rows.push([label, clean(value), color]);
  };
  const kind = DETAILS[table](model, id, add, track, index);
  return { title: nameOf(model, table, id), kind, rows };
}

/** Adds a row, unless there is nothing to tell; it makes names harmless to look at. */
type Add = (label: string, value: unknown, color?: string) => void;

/** Adds the rows of an event, and returns what kind of event it is. */
type Detail = (model: Model, row: number, add: Add, track: Track, index: number) => string;

const DETAILS: Record<TableName, Detail> = {
  cells(model: Model, row: number, add: Add) {
    const cell = model.facts.cells[model.table("cells").at("id", row)];
    span(model, "cells", row, add);
    add("process", cell.process);
    add("status", cell.status);
    add("waited for the device after", cell.sync === undefined ? null : duration(cell.sync));
    add("error", cell.error);
    add("source", cell.source);
    return "cell";
  },

  launches(model: Model, row: number, add: Add, track: Track, index: number) {
    const table = model.table("launches");
    span(model, "launches", row, add);
    phases(track, index, add);
    add("cache", named(model.word("launches", "cache", row), { memory: "found in memory", disk: "loaded from disk",
      compiled: "compiled now", wait: "waited for another thread" }));
    const compile = table.at("compilation_id", row), capture = table.at("capture", row);
    add("captured", capture >= 0 ? `it did not run: it went into the ${nameOf(model, "events", capture)}` : null);
    if (compile >= 0) why(model.facts.compiles[compile], add);
    gpuTimes(model, row, add);
    add("error", model.word("launches", "error", row));
    launched(model, table, row, add);
    add("device", deviceOf(model, table.at("device_id", row)));
    path(model, table.at("range", row), add);
    add("operator", model.word("launches", "operator", row));
    const parent = table.at("parent_launch_id", row);
    add("inside launch", parent >= 0 ? `${nameOf(model, "launches", parent)} (${parent})` : null);
    place(model, table, row, add);
    ids(add, [["launch", row], ["correlation", table.at("correlation_id", row)]]);
    return capture >= 0 ? "captured launch" : "launch";
  },

  compiles(model: Model, row: number, add: Add) {
    const table = model.table("compiles"), compile = model.facts.compiles[row];
    span(model, "compiles", row, add);
    add("outcome", { compiled: "compiled", disk: "loaded from the disk cache", wait: "another thread had compiled it",
      failed: "failed" }[compile.outcome]);
    add("asked for by", compile.trigger);
    add("waited for the compiler lock", compile.wait ? duration(compile.wait) : null);
    why(compile, add);
    add("error", compile.error);
    add("signature", compile.signature);
    for (const [name, spent] of compile.passes ?? []) add(`· ${clean(name)}`, duration(spent));
    launched(model, table, row, add);
    add("cache file", compile.file);
    place(model, table, row, add);
    ids(add, [["compile", row], ["launch", table.at("launch_id", row)]]);
    return "compile";
  },

  passes(model: Model, row: number, add: Add) {
    const owner = model.table("passes").at("compilation_id", row);
    span(model, "passes", row, add);
    add("of", owner >= 0 ? nameOf(model, "compiles", owner) : null);
    return model.word("passes", "kind", row) === "pass" ? "compiler pass" : "link phase";
  },

  ranges(model: Model, row: number, add: Add) {
    const table = model.table("ranges");
    span(model, "ranges", row, add);
    add("path", pathOf(model, row));
    for (const name of ["domain", "category", "payload", "color"]) add(name, model.word("ranges", name, row));
    add("seen in", model.word("ranges", "source", row) === "native" ? "NVTX's C interface" : "Python");
    place(model, table, row, add);
    ids(add, [["range", row]]);
    const kinds = { push_pop: "NVTX range", start_end: "NVTX start/end range", mark: "NVTX mark" };
    return named(model.word("ranges", "kind", row), kinds) ?? "NVTX range";
  },

  calls(model: Model, row: number, add: Add) {
    const table = model.table("calls"), source = table.at("source", row);
    span(model, "calls", row, add);
    const result = table.at("result", row), stream = table.at("stream", row);
    add("returned", result > 0 ? `error ${result}` : null);
    add("stream", stream >= 0 ? stream : null);
    const asked = source === 2 ? model.activitiesOfCall(row) : [];
    if (asked.length) add("asked for", `${nameOf(model, "gpu", asked[0])}${
      asked.length > 1 ? ` and ${count(asked.length - 1)} more` : ""}`);
    place(model, table, row, add);
    ids(add, [["correlation", table.at("correlation_id", row)]]);
    return ["driver call", "wait of the host", "driver call"][source];
  },

  events(model: Model, row: number, add: Add) {
    const table = model.table("events"), before = table.at("rebuild_of", row);
    span(model, "events", row, add);
    for (const name of ["outcome", "error", "change", "changes", "api"]) {
      add(name === "change" ? "changed" : name, model.word("events", name, row));
    }
    add("a rebuild of", before >= 0 ? `that of ${moment(table.at("start", before), 1000)}` : null);
    const stream = table.at("stream", row);
    for (const name of ["queue", "execute"]) {
      const value = table.at(`${name}_ns`, row);
      add(name, value >= 0 ? duration(value) : null);
    }
    add("stream", stream > 0 ? `0x${stream.toString(16)}` : stream === 0 ? "default" : null);
    place(model, table, row, add);
    ids(add, [["event", table.at("id", row)], ["graph", table.at("graph_id", row)],
      ["executable", table.at("exec_id", row)], ["correlation", table.at("correlation_id", row)]]);
    return model.word("events", "kind", row) === "launch" ? "graph launch (host)" : "graph";
  },

  builds(model: Model, row: number, add: Add) {
    const table = model.table("builds"), built = table.at("build_ns", row);
    span(model, "builds", row, add);
    add("outcome", named(model.word("builds", "outcome", row), { hit: "found in the cache", miss: "built now",
      wait: "waited for another thread", failed: "failed" }));
    add("compiler and linker", built > 0 ? duration(built) : null);
    for (const name of ["reason", "differing_parts", "fix", "error"]) {
      add(name === "differing_parts" ? "differs in" : name, model.word("builds", name, row));
    }
    add("of", model.word("builds", "framework", row));
    place(model, table, row, add);
    ids(add, [["build", table.at("id", row)], ["launch", table.at("launch_id", row)]]);
    return "request to a build cache";
  },

  collections(model: Model, row: number, add: Add) {
    const table = model.table("collections");
    span(model, "collections", row, add);
    for (const name of ["collected", "uncollectable"]) {
      const objects = table.at(name, row);
      add(name, objects >= 0 ? `${count(objects)} object${objects === 1 ? "" : "s"}` : null);
    }
    place(model, table, row, add);
    ids(add, [["collection", table.at("id", row)]]);
    return "garbage collection";
  },

  graphs(model: Model, row: number, add: Add) {
    const table = model.table("graphs");
    span(model, "graphs", row, add);
    add("activities", count(table.at("nodes", row)));
    add("their time", duration(table.at("busy", row)));
    callTimes(model, table.at("call", row), table.at("start", row), add);
    place(model, table, row, add);
    ids(add, [["graph", table.at("graph_id", row)], ["CUPTI graph", table.at("cupti_graph_id", row)],
      ["correlation", table.at("correlation_id", row)]]);
    return "graph launch";
  },

  gpu(model: Model, row: number, add: Add) {
    const table = model.table("gpu"), launch = table.at("launch", row), kind = model.word("gpu", "kind", row);
    const full = line(model.word("gpu", "name", row) ?? "");
    add("name", kind === "kernel" && full !== nameOf(model, "gpu", row) ? full : null);
    span(model, "gpu", row, add);
    const bytes = table.at("size_bytes", row), lasted = table.at("dur", row);
    if (bytes >= 0) {
      add("bytes", `${size(bytes)} (${count(bytes)})`);
      add("rate", lasted > 0 ? `${(bytes / lasted).toFixed(2)} GB/s` : null);
    }
    add("memory", model.word("gpu", "memory", row));
    add("device", deviceOf(model, table.at("device_id", row)));
    add("stream", table.at("stream", row) >= 0 ? table.at("stream", row) : null);
    if (launch >= 0) {
      gpuTimes(model, launch, add, true);
      if (table.has("call_end") && !(table.at("flags", row) & NO_CALL)) {
        add("driver call", duration(table.at("call_end", row) - table.at("call_start", row)));
      }
    }
    const graph = table.at("graph", row);
    add("of", graph >= 0 ? nameOf(model, "graphs", graph) : null);
    callTimes(model, table.at("call", row), table.at("start", row), add);
    add("asked for by", model.word("gpu", "api", row));
    launched(model, table, row, add);
    add("registers", table.at("regs", row) >= 0 ? table.at("regs", row) : null);
    path(model, table.at("range", row), add);
    add("operator", model.word("gpu", "operator", row));
    const entry = model.word("gpu", "entry_name", row);
    add("entry", entry && line(entry));
    place(model, table, row, add);
    ids(add, [["activity", table.at("id", row)], ["launch", launch], ["correlation", table.at("correlation_id", row)],
      ["node", table.at("graph_node_id", row)], ["CUPTI graph", table.at("cupti_graph_id", row)],
      ["CUPTI node", table.at("cupti_node_id", row)]]);
    if (kind === "graph") return "graph, traced as a whole";
    if (kind !== "kernel") return kind === "memset" ? "memset" : "copy";
    return graph >= 0 ? "kernel of a graph" : launch >= 0 ? "kernel" : "kernel (other)";
  },

  samples(model: Model, row: number, add: Add) {
    const table = model.table("samples"), value = table.at("value", row), cell = model.facts.cells[table.at("cell_id", row)];
    add("value", value >= 0 ? `${(value / PARTS).toFixed(1)} %` : "lost: the GPU's samples of this time are missing");
    span(model, "samples", row, add);
    add("metric", model.word("samples", "metric", row));
    add("device", deviceOf(model, table.at("device_id", row)));
    add("cell", cell?.label);
    return "counter of the GPU";
  },
};

function span(model: Model, table: TableName, row: number, add: Add) {
  const held = model.table(table), flags = table === "launches" ? (held.at("flags", row) & ENDED ? 0 : NO_END)
    : held.at("flags", row);
  const start = held.at("start", row), lasted = held.at("dur", row);
  add("start", flags & NO_START ? "before recording, or not measured" : moment(start, 1));
  const isMark = table === "ranges" && model.word("ranges", "kind", row) === "mark";
  if (!isMark) {
    add("duration", flags & NO_END ? "end not recorded"
      : Math.abs(lasted) < 1000 ? exact(lasted) : `${duration(lasted)} (${exact(lasted)})`);
  }
}

function phases(track: Track, index: number, add: Add) {
  if (!(track instanceof LaunchTrack)) return;
  track.segments(index);
  const spent = new Float64Array(PHASES.length);
  for (let at = 0; at < SEGMENTS; at++) spent[track.kinds[at]] += track.times[at + 1] - track.times[at];
  PHASES.forEach((name, phase) => { if (spent[phase] > 0) add(name, duration(spent[phase]), PHASE_COLORS[phase]); });
}

function gpuTimes(model: Model, launch: number, add: Add, onlyQueue = false) {
  const table = model.table("launches"), kernel = model.kernelOfLaunch[launch];
  let queue = table.has("queue_ns") ? table.at("queue_ns", launch) : -1;
  let execute = table.has("execute_ns") ? table.at("execute_ns", launch) : -1;
  if (kernel >= 0) {
    const gpu = model.table("gpu"), flags = gpu.at("flags", kernel);
    if (!table.has("queue_ns") && !(flags & NO_START) && table.at("flags", launch) & 4) {
      queue = Math.max(0, gpu.at("start", kernel) - table.at("submit_end", launch));
    }
    if (!table.has("execute_ns") && !(flags & (NO_START | NO_END))) execute = gpu.at("dur", kernel);
  }
  add("queue", queue >= 0 ? duration(queue) : null);
  if (!onlyQueue) add("execute", execute >= 0 ? duration(execute) : null);
}

function callTimes(model: Model, call: number, start: number, add: Add) {
  if (call < 0) return;
  const table = model.table("calls"), end = table.at("start", call) + table.at("dur", call);
  add("host call", `${nameOf(model, "calls", call)}, ${duration(table.at("dur", call))}`);
  add("queue", duration(Math.max(0, start - end)));
}

function why(compile: Compile, add: Add) {
  add("reason", compile.reason);
  add("fix", compile.fix);
}

/** Configuration and specialization. */
function launched(model: Model, table: Table, row: number, add: Add) {
  const configuration = model.facts.configurations[table.at("configuration_id", row)];
  if (configuration) {
    add("grid", configuration.grid);
    add("block", configuration.block);
    add("cluster", configuration.cluster);
    add("dynamic shared", configuration.shared ? size(configuration.shared) : null);
    if (table.name !== "gpu") add("stream", configuration.stream);
  }
  const own = table.at("specialization_id", row), specialization = model.facts.specializations[own];
  if (!specialization) return;
  add("signature", specialization.signature);
  const parts: string[] = [];
  if (specialization.regs !== undefined) parts.push(`${specialization.regs} registers`);
  if (specialization.shared) parts.push(`${size(specialization.shared)} static shared`);
  if (specialization.local) parts.push(`${size(specialization.local)} local`);
  if (specialization.lcs) parts.push("launch-config sensitive (LC-S)");
  if (specialization.cc) parts.push(`cc ${specialization.cc}`);
  add("specialization", parts.join(", "));
  add("bound to", specialization.bound);
  const used = model.facts.occupancies.find((each) => each[0] === own && each[1] === table.at("configuration_id", row));
  add("occupancy", used && used[3] !== null ? `${Math.round(used[3] * 100)} %` : null);
}

function deviceOf(model: Model, device: number) {
  const held = model.facts.devices[device];
  return held ? `GPU ${held.ordinal ?? device}${held.name ? ` (${held.name})` : ""}${
    held.owner ? ` of ${held.owner}` : ""}` : null;
}

function place(model: Model, table: Table, row: number, add: Add) {
  const thread = table.at("thread_id", row), cell = table.at("cell_id", row), { facts } = model;
  add("process", facts.threads[thread]?.process ?? facts.cells[cell]?.process);
  add("thread", thread >= 0 ? model.facts.threads[thread]?.label ?? thread : null);
  add("cell", cell >= 0 ? line(model.facts.cells[cell]?.label ?? cell) : null);
  const code = model.facts.lines[model.lineOf(table.name, row)];
  add("line", code?.at && line(code.in ? `${code.at} ${code.in}` : code.at));
}

function path(model: Model, range: number, add: Add) { if (range >= 0) add("NVTX", pathOf(model, range)); }

function pathOf(model: Model, range: number): string {
  const names: string[] = [], parents = model.table("ranges");
  for (let at = range, steps = 0; at >= 0 && steps < 64; at = parents.at("parent_range_id", at), steps++) {
    names.unshift(nameOf(model, "ranges", at));
  }
  return names.join(" / ");
}

function ids(add: Add, pairs: [string, number][]): void {
  add("ids", pairs.filter(([, value]) => value >= 0).map(([name, value]) => `${name} ${value}`).join(", "));
}
