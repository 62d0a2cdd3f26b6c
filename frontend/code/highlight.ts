// Tokens of Python, MLIR, LLVM, PTX, SASS and Numba's types, a line at a time: for what is in sight only.

import type { Token } from "./text";

/** Columns of a line that are looked at: more than are drawn. */
const COLUMNS = 6000;

const words = (text: string): Set<string> => new Set(text.trim().split(/\s+/));

// Mnemonics by what they do; what is in none of these computes. Of SASS, by how they begin.
const PTX_MEMORY = words(`ld ldu st atom red cp prefetch prefetchu cvta tex tld4 txq suld sust sured suq multimem
  discard applypriority isspacep mapa createpolicy ldmatrix stmatrix tensormap movmatrix getctarank`);
const PTX_CONTROL = words(`bra brx call ret exit trap brkpt bar barrier mbarrier membar fence nanosleep elect setmaxnreg
  vote activemask match griddepcontrol pmevent shfl redux clusterlaunchcontrol`);
const PTX_TENSOR = words("wmma mma wgmma tcgen05");
const begins = (text: string) => new RegExp(`^(?:${text.trim().split(/\s+/).join("|")})`);
const SASS_MEMORY = begins(String.raw`LD ST ATOM RED(?!UX) ULDC CCTL TEX TLD TMML TXD TXQ SULD SUST SUATOM SURED QSPC
  UTMA UBLK`);
const SASS_CONTROL = begins(String.raw`BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV BPT BAR B2R WARPSYNC YIELD
  NANOSLEEP NOP KILL RTT PREEXIT ACQBULK ENDCOLLECTIVE MEMBAR ERRBAR DEPBAR LDGDEPBAR ARRIVES SYNCS UCGABAR ELECT VOTE
  MATCH SHFL REDUX CREDUX FENCE CGAERRBAR USETMAXREG`);
const SASS_TENSOR = begins(String.raw`[HIDBQO]MMA [HIQB]GMMA WARPGROUP UTC\w*MMA MOVM UTCBAR LDT\b STT\b UTCCP`);
const LLVM_MEMORY = words("load store alloca getelementptr atomicrmw cmpxchg fence addrspacecast");
const LLVM_CONTROL = words("br switch indirectbr ret call invoke resume unreachable phi select");
const LLVM_ARITHMETIC = words(`add sub mul sdiv udiv srem urem fadd fsub fmul fdiv frem fneg shl lshr ashr and or xor
  icmp fcmp trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast insertvalue extractvalue
  insertelement extractelement shufflevector freeze`);
const LLVM_KEYWORDS = words(`define declare target triple datalayout global constant internal external private
  linkonce_odr linkonce weak weak_odr common appending unnamed_addr local_unnamed_addr addrspace align type to
  attributes source_filename nounwind readnone readonly alwaysinline noinline inbounds nuw nsw exact fast nnan ninf nsz
  arcp contract afn reassoc volatile undef poison null true false zeroinitializer distinct section tail musttail notail
  nocapture noalias byval sret zeroext signext eq ne slt sle sgt sge ult ule ugt uge oeq one olt ole ogt oge ord
  ueq une uno`);
const MLIR_KEYWORDS = words(`module attributes kernel private public nested strided offset loc unknown fused callsite at
  to step iter_args else do true false dense x y z slt sle sgt sge ult ule ugt uge eq ne oeq one olt ole ogt oge`);
// Operations of MLIR's dialects by what they do; those of none of these compute.
const MLIR_SPECIAL = /^(?:tt\.get_(?:program_id|num_programs)|gpu\.(?:\w*_id|\w*_dim|lane_id|num_subgroups|subgroup_size)|nvvm\.read\.ptx\.sreg\..*)$/;
const MLIR_STRUCTURE = /^(?:builtin\.module|gpu\.(?:module|func|binary)|(?:llvm|func|tt)\.func|llvm\.mlir\.global)$/;
const MLIR_MEMORY = new RegExp(String.raw`^(?:memref\.|affine\.(?:load|store)|vector\.(?:load|store|transfer)`
  + String.raw`|llvm\.(?:load|store|alloca|getelementptr|atomicrmw|cmpxchg|addrspacecast|mlir\.addressof)`
  + String.raw`|tt\.(?:load|store|descriptor_\w+|atomic_\w+)|ttn?g\.(?:local_|async_copy|async_tma|tmem_|memdesc)`
  + String.raw`|nvvm\.(?:cp|ldmatrix|stmatrix|mapa|prefetch)|gpu\.(?:alloc|dealloc|memcpy|memset|dynamic_shared))`);
const MLIR_CONTROL = new RegExp(String.raw`^(?:cf\.|scf\.|func\.(?:call|return)|gpu\.(?:return|barrier|shuffle)`
  + String.raw`|llvm\.(?:br|cond_br|switch|return|call|unreachable|intr\.assume|inline_asm)`
  + String.raw`|tt\.(?:call|return|reduce|scan)|ttn?g\.(?:barrier|async_wait|async_commit|fence|wait_|init_|warp_\w+_wait)`
  + String.raw`|nvvm\.(?:barrier|bar|mbarrier|shfl|vote|match|fence|cluster|redux|elect))`);
const MLIR_TENSOR = /^(?:tt\.dot|ttng\.(?:warp_group_dot$|tc_gen5_mma)|nvgpu\.(?:mma|warpgroup)|nvvm\.(?:w?mma|wgmma|tcgen05)|gpu\.subgroup_mma)/;
const MLIR_DIALECTS = words(`arith math index complex memref vector tensor affine cf scf func gpu nvvm nvgpu llvm ub
  bufferization linalg builtin tt ttg ttng nvws nvg`);
const PYTHON_KEYWORDS = words(`False None True and as assert async await break class continue def del elif else except
  finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield`);
const PYTHON_BUILTINS = words(`abs all any bool complex dict divmod enumerate float int len list map max min pow print
  range reversed round set sorted str sum tuple type zip cuda np numpy math numba self`);
const NUMBA_TYPES = words(String.raw`u?int(?:p|c|8|16|32|64)? float(?:16|32|64) bfloat16 complex(?:64|128) bool(?:ean)?
  none array Array Tuple UniTuple Named\w*Tuple Literal literal Optional unicode_type range\w* iter\w* type Module
  Function Dispatcher CPUDispatcher DeviceFunction record Record slice\w* pair tuple`);
const PTX_TYPE = String.raw`\.(?:[usbf](?:8|16|32|64|128)|[bft]f(?:16|32)(?:x2)?|f16x2|e[245]m[1230]\w*|pred|v[248])`
  + String.raw`(?!\w)`;
const PTX_SPECIAL = new RegExp(String.raw`^%(?:${[...words(String.raw`n?tid n?ctaid laneid n?warpid n?smid gridid
  is_explicit_cluster n?clusterid cluster_\w+ lanemask_\w+ clock\w* pm\d+\w* envreg\d+ globaltimer\w* total_smem\w*
  dynamic_smem\w* current_graph\w* reserved\w* aggr_smem\w*`)].join("|")})(?:\.\w+)?$`);
const SASS_TAIL = String.raw`(?:\.(?:reuse|H[01](?:_H[01])?|B[0-3]|64|U?X\w*))*`;

const SHAPES: Record<string, RegExp | undefined> = {
  python: new RegExp([
    String.raw`(?<comment>#.*)`,
    String.raw`(?<open>(?:\b[rRbBfFuU]{1,2})?(?:"""|'''))`,
    String.raw`(?<string>(?:\b[rRbBfFuU]{1,2})?(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?))`,
    String.raw`(?<directive>^\s*@[\w.]+)`,
    String.raw`(?<number>\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?)[jJ]?)`,
    String.raw`(?<word>[\p{L}_][\p{L}\p{N}_]*)`,
  ].join("|"), "gu"),
  ptx: new RegExp([
    String.raw`(?<comment>//.*|/\*.*?\*/)`, String.raw`(?<open>/\*)`, String.raw`(?<string>"(?:[^"\\]|\\.)*"?)`,
    String.raw`(?<predicate>@!?%?[\w$]+)`, String.raw`(?<label>^\s*[$\w]+:(?!:)|\$L[\w$]+)`,
    String.raw`(?<register>%[\w$]+(?:\.[xyzw])?)`,
    String.raw`(?<number>\b(?:0[fF][\da-fA-F]{8}|0[dD][\da-fA-F]{16}|0[xX][\da-fA-F]+U?|\d+(?:\.\d+)?)\b)`,
    `(?<type>${PTX_TYPE})`, String.raw`(?<directive>\.[A-Za-z_][\w:]*)`,
    String.raw`(?<word>[A-Za-z_$][\w$]*(?:\.[\w:]+)*)`, String.raw`(?<next>[;{}])`,
  ].join("|"), "g"),
  sass: new RegExp([
    String.raw`(?<address>/\*[\da-f]{4,}\*/)`, String.raw`(?<comment>//.*|/\*.*?(?:\*/|$)|\(\*.*?(?:\*\)|$))`,
    String.raw`(?<string>"(?:[^"\\]|\\.)*"?)`,
    String.raw`(?<predicate>@!?U?P(?:\d+|T)\b)`, String.raw`(?<label>^[.$\w]+:|${"`"}\([^)]{0,999}\))`,
    String.raw`(?<special>\bc[xs]?\[[^\]]{0,40}\](?:\[[^\]]{0,40}\])?|\bSR_?[A-Z]\w*(?:\.\w+)*|\bdesc(?=\[))`,
    String.raw`(?<register>\b(?:U?R\d+|U?RZ|U?P\d+|U?PT|U?PR|S?B\d+|SRZ|gsb\d+|tmem)\b${SASS_TAIL})`,
    String.raw`(?<number>(?<![\w.])-?(?:0x[\da-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b|[+-](?:INF|QNAN))`,
    String.raw`(?<directive>(?<![\w.])\.[a-z_][\w.]*)`, String.raw`(?<word>[A-Za-z_$][\w$]*(?:\.[\w]+)*)`,
    String.raw`(?<next>[;{}])`,
  ].join("|"), "g"),
  llvm: new RegExp([
    String.raw`(?<label>^(?:"[^"]*"|[\w.$-]+):)`, String.raw`(?<comment>;.*)`,
    String.raw`(?<global>@(?:"[^"]*"|[\w.$-]+))`, String.raw`(?<register>%(?:"[^"]*"|[\w.$-]+))`,
    String.raw`(?<special>!(?:"[^"]*"|[\w.]+)|#\d+)`, String.raw`(?<string>c?"[^"]*"?)`,
    String.raw`(?<number>(?<![\w.])-?(?:0x[HKLMR]?[\da-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b)`,
    String.raw`(?<type>\b(?:i\d+|float|double|half|bfloat|fp128|void|ptr|label|metadata|opaque|token)\b)`,
    String.raw`(?<word>[A-Za-z_][\w.]*)`,
  ].join("|"), "g"),
  mlir: new RegExp([
    String.raw`(?<comment>//.*)`, String.raw`(?<string>"(?:[^"\\]|\\.)*"?)`, String.raw`(?<label>\^[\w$.-]+)`,
    String.raw`(?<global>@(?:"[^"]*"|[\w.$-]+))`, String.raw`(?<register>%[\w$.-]+(?:#\d+)?)`,
    String.raw`(?<type>![A-Za-z_][\w.$]*|\b(?:[su]?i\d+|f\d+\w*|bf16|index|none|memref|tensor|vector|complex)\b(?!\.))`,
    String.raw`(?<special>#[A-Za-z_][\w.$]*)`,
    String.raw`(?<number>(?<![\w.])-?(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.]))`,
    String.raw`(?<word>[A-Za-z_][\w$]*(?:\.[\w$]+)*)`,
  ].join("|"), "g"),
  types: new RegExp([
    String.raw`(?<comment>#.*)`, String.raw`(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`,
    String.raw`(?<register>\$[\w.$]+)`,
    String.raw`(?<type>\b(?:${[...NUMBA_TYPES].join("|")})\b)`,
    String.raw`(?<number>\b\d[\w.]*)`, String.raw`(?<word>[\p{L}_][\p{L}\p{N}_]*)`,
  ].join("|"), "gu"),
};

// Where a string or a comment that goes over several lines ends.
const ENDS: Record<string, RegExp> = { '"""': /(?:[^\\]|\\.)*?"""/y, "'''": /(?:[^\\]|\\.)*?'''/y, "/*": /.*?\*\//y };
const OPERATIONS: Record<string, (word: string) => string> = {
  ptx(word: string) {
    const name = word.split(".", 1)[0];
    return PTX_TENSOR.has(name) ? "tensor" : PTX_MEMORY.has(name) ? "memory" : PTX_CONTROL.has(name) ? "control"
      : "arithmetic";
  },
  sass(word: string) {
    if (!/^[A-Z][A-Z\d_]+/.test(word)) return "";
    return SASS_TENSOR.test(word) ? "tensor" : SASS_CONTROL.test(word) ? "control" : SASS_MEMORY.test(word) ? "memory"
      : "arithmetic";
  },
};

/** What a token's kind is called in words, where that is not plain to see. */
export const KIND_TITLES: Record<string, string> = {
  memory: "memory", control: "control flow and synchronization", arithmetic: "arithmetic and moves",
  tensor: "tensor cores",
};

/**
 * The tokens of one line.
 *
 * @param state - What the line before returned: the opening of a string or comment that goes on, or "".
 */
export function tokensOf(language: string, line: string, state = ""): { tokens: Token[]; state: string } {
  const shape = SHAPES[language], tokens: Token[] = [];
  if (!shape) return { tokens, state: "" };
  const kind = language === "ptx" ? "comment" : "string", text = line.slice(0, COLUMNS);
  let at = 0, opens = true, before = "";
  const close = (from: number) => {
    const end = ENDS[state];
    end.lastIndex = at;
    const isClosed = end.test(text);
    at = isClosed ? end.lastIndex : text.length;
    tokens.push([kind, from, at]);
    if (isClosed) state = "";
  };
  if (state) close(0);
  while (at < text.length) {
    shape.lastIndex = at;
    const match = shape.exec(text);
    if (!match) break;
    const { groups = {}, index, 0: found } = match, end = index + found.length;
    at = end;
    if (groups.open) {
      state = found.slice(language === "python" ? -3 : 0);
      close(index);
    } else if (groups.next) opens = true;
    else if (groups.word) {
      word(language, found, index, opens, before, tokens);
      opens = false;
      before = found;
    } else {
      for (const name in groups) {
        if (groups[name] === undefined) continue;
        const isSpecial = name === "register" && language === "ptx" && PTX_SPECIAL.test(found);
        tokens.push([isSpecial ? "special" : NAMES[name] ?? name, index, end]);
        opens &&= STILL_OPEN.has(name);
        break;
      }
    }
  }
  return { tokens, state };
}

const NAMES: Record<string, string> = { predicate: "register", global: "name" };
const STILL_OPEN = new Set(["predicate", "address", "comment", "label"]);
const TYPE_TAIL = new RegExp(`(?:${PTX_TYPE})+$`);

function word(language: string, found: string, index: number, opens: boolean, before: string, tokens: Token[]) {
  const end = index + found.length;
  const add = (kind: string, from = index, to = end) => { if (kind) tokens.push([kind, from, to]); };
  if (language === "python") {
    add(PYTHON_KEYWORDS.has(found) ? "keyword" : before === "def" || before === "class" ? "name"
      : PYTHON_BUILTINS.has(found) ? "special" : "");
  } else if (language === "llvm") {
    add(LLVM_ARITHMETIC.has(found) ? "arithmetic" : LLVM_MEMORY.has(found) ? "memory"
      : LLVM_CONTROL.has(found) ? "control" : LLVM_KEYWORDS.has(found) ? "keyword" : "");
  } else if (language === "mlir") {
    add(mlirKind(found));
  } else if (OPERATIONS[language] && opens) {
    const kind = OPERATIONS[language](found), tail = language === "ptx" ? TYPE_TAIL.exec(found) : null;
    add(kind, index, tail ? index + tail.index : end);
    if (tail) add("type", index + tail.index, end);
  }
}

function mlirKind(word: string) {
  const dialect = word.split(".", 1)[0];
  if (dialect === word || !MLIR_DIALECTS.has(dialect)) return MLIR_KEYWORDS.has(word) ? "keyword" : "";
  return MLIR_SPECIAL.test(word) ? "special" : MLIR_STRUCTURE.test(word) ? "keyword" : MLIR_TENSOR.test(word) ? "tensor"
    : MLIR_MEMORY.test(word) ? "memory" : MLIR_CONTROL.test(word) ? "control" : "arithmetic";
}

/** A text by lines. */
interface Lined {
  readonly text: string;
  readonly language: string;
  line(index: number): string;
}

/** States at the starts of a text's lines, found as far as they are asked for. */
export class CodeStates {
  private readonly states: string[] | null;

  constructor(private readonly text: Lined) {
    const spans = text.language === "python" ? /"""|'''/ : text.language === "ptx" ? /\/\*/ : null;
    this.states = spans?.test(text.text) ? [""] : null;
  }

  at(index: number): string {
    if (!this.states) return "";
    for (let line = this.states.length - 1; line < index; line++) {
      this.states.push(tokensOf(this.text.language, this.text.line(line), this.states[line]).state);
    }
    return this.states[index];
  }
}
