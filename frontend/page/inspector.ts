// An inspector's page: kernels and their code, which the page holds as text. kernelscope/views/inspector/page.py writes
// the page.

import { type Head, answered } from "../inspector/answers";
import { mount } from "../inspector/inspector";
import type { Answer, Facts, Question } from "../inspector/wire";
import { inflatedText, unpacked } from "../shared/inflate";
import { bytesOf, opened, partOf } from "./parts";

interface Held {
  facts: Facts;
  /** By specialization and form, or by specialization alone for its compiles. */
  answers: Record<string, [head: Head & { error?: string }, buffers: string[]]>;
}

const held: Held = JSON.parse(await inflatedText(bytesOf("kernelscope-payload")));

// A link may name the kernel to begin with: its qualified name, or the last part of it.
const wanted = decodeURIComponent(location.hash.slice(1));
const linked = held.facts.kernels.find(({ name }) => name === wanted || name.endsWith(`.${wanted}`));
if (wanted && linked) held.facts.first = linked.key;

async function ask(what: Question): Promise<Answer> {
  const [head, buffers] = held.answers[what.what === "code" ? `${what.specialization} ${what.form}` : what.specialization];
  if (head.error) throw new Error(head.error);
  return answered(head, buffers.map(unpacked));
}

const host = partOf("kernelscope-inspector");
opened(mount(host, { facts: held.facts, ask }));

// Not scrollIntoView: a page around this one would scroll too.
const list = host.querySelector(".ksi-kernels"), first = list?.querySelector<HTMLElement>('[aria-selected="true"]');
if (list && first) list.scrollTop = first.offsetTop - (list as HTMLElement).offsetTop;
