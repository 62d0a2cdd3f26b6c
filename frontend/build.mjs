// Bundles the front ends into kernelscope/static; with --check it only says whether what is there is what it makes.
import { build, transform } from "esbuild";
import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = fileURLToPath(new URL("../kernelscope/static/", import.meta.url));

/** A style sheet is imported as its text, without comments and spaces. */
const styles = {
  name: "styles",
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true, charset: "utf8" });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

const { outputFiles, metafile } = await build({
  absWorkingDir: here,
  entryPoints: {
    timeline: "timeline/timeline.ts", inspector: "inspector/inspector.ts", graph: "graph/graph.ts",
    flame: "flame/flame.ts",
    widget: "widget/widget.ts", inspector_widget: "widget/inspector_widget.ts",
    cells: "card/cells.ts", timeline_page: "page/timeline.ts", timeline_flame_page: "page/timeline_flame.ts",
    graph_page: "page/graph.ts", inspector_page: "page/inspector.ts", cards_page: "page/cards.ts",
  },
  outdir: target,
  bundle: true, format: "esm", target: "es2022", platform: "browser",
  minify: true, charset: "utf8", legalComments: "none",
  plugins: [styles],
  metafile: true,
  write: false,
});

/** Modules import in one direction: a circle is an error. Imports of types alone are gone by now. */
function refuseCircles(inputs) {
  const done = new Set();
  const follow = (name, path) => {
    if (path.includes(name)) throw new Error(`modules import in a circle: ${[...path, name].join(" > ")}`);
    if (done.has(name)) return;
    for (const each of inputs[name].imports) follow(each.path, [...path, name]);
    done.add(name);
  };
  for (const name of Object.keys(inputs)) follow(name, []);
}

refuseCircles(metafile.inputs);

const made = new Map(outputFiles.map(({ path, text }) => [path.slice(target.length), text]));
const there = await readdir(target);
const old = (name) => readFile(target + name, "utf8").catch(() => null);
if (process.argv.includes("--check")) {
  const names = new Set([...made.keys(), ...there]), stale = [];
  for (const name of names) if ((await old(name)) !== made.get(name)) stale.push(name);
  if (stale.length) {
    console.error(`kernelscope/static is not what frontend/ builds: ${stale.join(", ")}; run  make frontend`);
    process.exit(1);
  }
} else {
  for (const name of there) if (!made.has(name)) await rm(target + name);
  for (const [name, text] of made) await writeFile(target + name, text);
  for (const [name, text] of made) console.log(`${String(Buffer.byteLength(text)).padStart(8)} ${name}`);
}
