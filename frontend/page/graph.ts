// A graph's page: the graph that the page holds as text. kernelscope/views/graph/widget.py writes the page.

import { mount } from "../graph/graph";
import { bytesOf, opened, partOf } from "./parts";

opened(mount(partOf("kernelscope-graph"), {
  payload: bytesOf("kernelscope-payload"), height: Math.max(320, window.innerHeight - 150),
}));
