// The page's theme, as a canvas needs it, and what goes with a color in it.

import { contextOf } from "./dom";
import { INKS, INK_FROM } from "./generated";

type Rgb = readonly [red: number, green: number, blue: number];

/** A color with what goes with it, for CSS and as pixels. */
export interface Color {
  hex: string;
  css: string;
  pixel: number;
  faint: string;
  faintPixel: number;
  /** What can be read on it. */
  ink: string;
  /** Whether it is hard to tell from the ground. */
  isLost: boolean;
}

/** Reads the theme from the root element's style; `rgb` takes any color that CSS knows. */
export class Theme {
  isDark = false;
  ground = "";
  ink = "";
  soft = "";
  accent = "";
  line = "";
  /** A line that is to be seen. */
  strong = "";
  /** What every other lane lies on. */
  band = "";
  /** The ground, nearly opaque. */
  veil = "";
  font = "";
  small = "";
  /** Colors by their hex: made anew with each theme. */
  cache = new Map<string, Color>();
  private groundRgb: Rgb = [255, 255, 255];
  private patterns = new Map<string, CanvasPattern>();
  private readonly probe: CanvasRenderingContext2D;

  constructor(private readonly root: HTMLElement) {
    this.probe = contextOf(document.createElement("canvas"), { willReadFrequently: true });
    this.probe.canvas.width = this.probe.canvas.height = 1;
    this.read();
  }

  read() {
    const style = getComputedStyle(this.root);
    const value = (name: string) => style.getPropertyValue(name).trim();
    const ground = this.rgb(value("--ks-ground") || "#fff");
    this.isDark = lightness(ground) < 0.35;
    this.ground = css(ground);
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

  private rgb(color: string): Rgb {
    this.probe.clearRect(0, 0, 1, 1);
    this.probe.fillStyle = "#888";
    this.probe.fillStyle = color;
    this.probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = this.probe.getImageData(0, 0, 1, 1).data;
    return [r, g, b];
  }

  /** A color with what goes with it: the same faint, the ink that can be read on it, both as pixels. */
  color(hex: string): Color {
    let found = this.cache.get(hex);
    if (!found) {
      const rgb = this.rgb(hex), mixed = (at: 0 | 1 | 2) => Math.round(rgb[at] * 0.24 + this.groundRgb[at] * 0.76);
      const faint: Rgb = [mixed(0), mixed(1), mixed(2)];
      found = {
        hex, css: css(rgb), pixel: pixel(rgb), faint: css(faint), faintPixel: pixel(faint),
        ink: lightness(rgb) > INK_FROM ? INKS[0] : INKS[1],
        isLost: Math.abs(lightness(rgb) - lightness(this.groundRgb)) < 0.06,
      };
      this.cache.set(hex, found);
    }
    return found;
  }

  /** Stripes for what is unknown or is no kernel. */
  stripes(context: CanvasRenderingContext2D, hex: string, turned: boolean): CanvasPattern {
    const key = `${hex}${turned ? "/" : "\\"}`;
    let found = this.patterns.get(key);
    if (!found) {
      const tile = document.createElement("canvas"), held = contextOf(tile);
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
      found = context.createPattern(tile, "repeat") ?? undefined;
      if (!found) throw new Error("this browser draws no patterns");
      this.patterns.set(key, found);
    }
    return found;
  }
}

function css([r, g, b]: Rgb) { return `rgb(${r},${g},${b})`; }

function pixel([r, g, b]: Rgb) { return (255 << 24) | (b << 16) | (g << 8) | r; }

function lightness(rgb: Rgb): number {
  const [r, g, b] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
