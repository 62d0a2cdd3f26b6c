// Colors: the page's theme, the card's colors for phases, and one color for each kernel's name.

export const PHASE_COLORS = ["#2b7bba", "#e69f00", "#5bbcea", "#c66fa0", "#8a8f98", "#9aa0a8"];
/** Neighbours differ in lightness too, for people who see no red-green difference. */
export const KERNEL_COLORS = [
  "#3f7fc4", "#e0a33a", "#1f9e89", "#c77bb5", "#5a6fb0", "#d1744a", "#74b3c9", "#8d8a3f", "#9a7fd1", "#b9a58a",
];
const COPY = "#6f8f9f", MEMSET = "#98a39f", CELL = "#9aa7b8", COMPILE = "#e69f00", PASS = "#f0c765";
const API = "#7d8fa6", WAIT = "#c9a9c0", ASKING = "#8fa9c4", GRAPH = "#6b9f7f", EVENT = "#4f8f8b", RANGE = "#76a88f";
const HEX = /^#[0-9a-f]{6}$/i;

/** Reads the theme from the root element's style; `rgb` takes any color that CSS knows. */
export class Theme {
  constructor(root) {
    this.root = root;
    this.probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    this.probe.canvas.width = this.probe.canvas.height = 1;
    this.read();
  }

  read() {
    const style = getComputedStyle(this.root);
    const value = (name) => style.getPropertyValue(name).trim();
    const ground = this.rgb(value("--ks-ground") || "#fff");
    this.isDark = lightness(ground) < 0.35;
    this.ground = css(ground);
    this.groundPixel = pixel(ground);
    this.ink = css(this.rgb(value("--ks-ink") || "#111"));
    this.soft = css(this.rgb(value("--ks-soft") || "#666"));
    this.accent = css(this.rgb(value("--ks-accent") || "#06c"));
    this.groundRgb = ground;
    this.line = this.isDark ? "rgba(255,255,255,.09)" : "rgba(20,30,40,.09)";
    this.strong = this.isDark ? "rgba(255,255,255,.22)" : "rgba(20,30,40,.2)";
    this.band = this.isDark ? "rgba(255,255,255,.028)" : "rgba(20,30,50,.028)";
    this.veil = `rgba(${ground.join(",")},.78)`;
    this.font = `11px ${style.fontFamily}`;
    this.small = `10px ${style.fontFamily}`;
    this.cache = new Map();
    this.patterns = new Map();
  }

  rgb(color) {
    this.probe.clearRect(0, 0, 1, 1);
    this.probe.fillStyle = "#888";
    this.probe.fillStyle = color;
    this.probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = this.probe.getImageData(0, 0, 1, 1).data;
    return [r, g, b];
  }

  /** A color with what goes with it: the same faint, the ink that can be read on it, both as pixels. */
  color(hex) {
    let found = this.cache.get(hex);
    if (!found) {
      const rgb = this.rgb(hex), faint = rgb.map((value, at) => Math.round(value * 0.24 + this.groundRgb[at] * 0.76));
      found = {
        hex, css: css(rgb), pixel: pixel(rgb), faint: css(faint), faintPixel: pixel(faint),
        ink: lightness(rgb) > 0.19 ? "#0c1016" : "#ffffff",
        isLost: Math.abs(lightness(rgb) - lightness(this.groundRgb)) < 0.06,
      };
      this.cache.set(hex, found);
    }
    return found;
  }

  /** Stripes for what is unknown or is no kernel. */
  stripes(context, hex, turned) {
    const key = `${hex}${turned ? "/" : "\\"}`;
    let found = this.patterns.get(key);
    if (!found) {
      const tile = document.createElement("canvas"), held = tile.getContext("2d");
      tile.width = tile.height = 6;
      held.fillStyle = this.color(hex).faint;
      held.fillRect(0, 0, 6, 6);
      held.strokeStyle = this.color(hex).css;
      held.lineWidth = 1.6;
      held.beginPath();
      for (const shift of [-6, 0, 6]) {
        held.moveTo(shift, turned ? 6 : 0);
        held.lineTo(shift + 6, turned ? 0 : 6);
      }
      held.stroke();
      found = context.createPattern(tile, "repeat");
      this.patterns.set(key, found);
    }
    return found;
  }
}

/** A function from a row of a table to its color; it looks each color up once. Untrusted colors are checked. */
export function colorsOf(model, theme, table) {
  const held = model.table(table), color = (hex) => theme.color(hex);
  if (table === "gpu") {
    const kinds = held.col("kind"), names = held.col("name"), palette = KERNEL_COLORS.map(color);
    const ofKind = (kind) => (kind === "kernel" ? null : color(kind === "memset" ? MEMSET : COPY));
    const byKind = model.words["gpu.kind"].map(ofKind);
    return (row) => byKind[kinds[row]] ?? palette[Math.max(0, names[row]) % palette.length];
  }
  if (table === "ranges") {
    const own = held.col("color");
    const found = model.words["ranges.color"].map((each) => color(HEX.test(each) ? each : RANGE));
    const usual = color(RANGE);
    return (row) => found[own[row]] ?? usual;
  }
  if (table === "calls") {
    const sources = held.col("source"), found = [API, WAIT, ASKING].map(color);
    return (row) => found[sources[row]];
  }
  if (table === "builds") {
    const outcomes = held.col("outcome"), hit = model.words["builds.outcome"].indexOf("hit");
    const [found, built] = [API, COMPILE].map(color);
    return (row) => (outcomes[row] === hit ? found : built);
  }
  const only = color({
    cells: CELL, compiles: COMPILE, passes: PASS, graphs: GRAPH, events: EVENT, launches: PHASE_COLORS[0],
  }[table]);
  return () => only;
}

function css([r, g, b]) { return `rgb(${r},${g},${b})`; }

function pixel([r, g, b]) { return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0; }

function lightness(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
