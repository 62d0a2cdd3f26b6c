"""The charts as a fragment of HTML that draws itself with no server, network, extension or CDN.

Plotly's own ways into a notebook need one of these: its media type is drawn by a JupyterLab extension and by nothing in
VS Code's or nbconvert's stead, and its HTML either loads plotly.js from a CDN or carries 4 to 5 MB of it. This fragment
carries plotly.js compressed (1.5 to 2 MB), unpacks it in the browser, and keeps it out of the page's globals.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.recording.model import Recording
from kernelscope.renderers import charts
from kernelscope.renderers.base import Makes, escape

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAKES = Makes("text/html", ".html")

_SCRIPT = """
(async () => {
  const root = document.getElementById(%(id)s);
  if (!root || root.dataset.drawn) return;
  root.dataset.drawn = "1";
  const say = (text) => { root.querySelector(".ks-charts-note").textContent = text; };
  try {
    const read = (name) => root.querySelector('script[data-kind="' + name + '"]').textContent;
    const version = root.dataset.plotly;
    const held = (window.__kernelscopePlotly = window.__kernelscopePlotly || {});
    const source = root.querySelector('script[data-kind="plotly"]');
    if (!source) {
      say("This figure draws with the plotly.js of an earlier one, which is not on this page: run the notebook anew.");
      while (!held[version]) {
        await new Promise((done) => setTimeout(done, 200));
        if (!root.isConnected) return;
      }
    }
    held[version] = held[version] || (async () => {
      const packed = Uint8Array.from(atob(read("plotly")), (c) => c.charCodeAt(0));
      const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const code = await new Response(unpacked).text();
      const module = { exports: {} };
      const before = Object.getOwnPropertyDescriptor(window, "Plotly");
      new Function("module", "exports", "define", code)(module, module.exports, undefined);
      // It sets this global all the same; another version of it may be the page's own.
      if (before) Object.defineProperty(window, "Plotly", before); else delete window.Plotly;
      return module.exports;
    })();
    const Plotly = await held[version];
    for (const figure of JSON.parse(read("figures"))) {
      const place = document.createElement("div");
      root.insertBefore(place, root.querySelector(".ks-charts-note"));
      await Plotly.newPlot(place, figure.data, figure.layout,
        { responsive: true, displaylogo: false, displayModeBar: "hover",
          modeBarButtonsToRemove: ["select2d", "lasso2d"] });
    }
    say("");
    root.dataset.drawn = "done";
  } catch (error) {
    delete root.dataset.drawn;
    say("The charts cannot be drawn here: " + error);
  }
})();
"""

# The text color of whatever theme surrounds the charts replaces the figures' own gray, also when the theme is switched.
_STYLE = """
.kscope-charts { max-width: 1180px; margin: 4px 0; color: var(--jp-ui-font-color1, var(--vscode-editor-foreground,
  var(--ks-charts-ink))); --ks-charts-ink: #1b1f24; font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); }
@media (prefers-color-scheme: dark) { .kscope-charts { --ks-charts-ink: #e4e7eb; } }
.kscope-charts svg text:not(.hoverlayer text) { fill: currentColor !important; }
.kscope-charts > div + div { margin-top: 14px; }
.kscope-charts .ks-charts-note:empty { display: none; }
"""


def charts_html(recording: Recording) -> str:
    """Return time by phase, compile time, queue and execute, and GPU busy as one self-contained fragment of HTML.

    It is 1.5 to 2 MB, nearly all of it plotly.js. Where scripts do not run it says so in a sentence.
    """
    return figures_html([each(recording) for each in (
        charts.time_by_phase, charts.compile_time, charts.queue_and_execute, charts.gpu_busy)], recording.notice or "")


def figures_html(figures: Sequence[go.Figure], notice: str = "", *, with_library: bool = True) -> str:
    """Return Plotly figures as one self-contained fragment of HTML that draws itself.

    Parameters
    ----------
    figures : sequence of plotly.graph_objects.Figure
        What to draw, one below the other.
    notice : str
        What must be said about all of them where they cannot be drawn.
    with_library : bool
        Whether plotly.js is in it. Without, another fragment of the page must have it, before this one or after it.
    """
    name = f"ks-charts-{secrets.token_hex(6)}"
    packed, version = _plotly()
    note = f"{notice}. " if notice else ""
    library = f'<script type="text/plain" data-kind="plotly">{packed}</script>' if with_library else ""
    return (
        f"<style>{_STYLE}</style>"
        f'<div class="kscope-charts" id="{name}" data-plotly="{escape(version)}">'
        f'<div class="ks-charts-note">{escape(note)}The charts need JavaScript: trust this notebook and run the cell '
        "again.</div>"
        f'<script type="application/json" data-kind="figures">{_json([each.to_plotly_json() for each in figures])}'
        "</script>"
        f"{library}</div>"
        f"<script>{_SCRIPT % {'id': _json(name)}}</script>"
    )


@functools.cache
def _plotly() -> tuple[str, str]:
    """plotly.js of the installed package, compressed and in letters, and what tells versions apart."""
    import plotly
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode("ascii"), plotly.__version__


def _json(value: Any) -> str:
    """JSON that no HTML parser takes for an end of the script around it."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
