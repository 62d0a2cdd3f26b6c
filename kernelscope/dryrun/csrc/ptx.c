/* Reading PTX: as much of it as tells the kernels' names, parameters, launch bounds and shared memory, and the global
 * variables. A compiler would be needed for the rest: registers are a guess (GUESSED_REGISTERS), and variables start
 * as zeros whatever their initializer says. */
#include "driver.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define GUESSED_REGISTERS 32
#define MAX_PARAMETERS 4096

typedef struct Reader {
    const char *at, *end;
} Reader;

typedef struct Token { /* a word (letters, digits and . _ $ %) or one other character; empty at the end */
    const char *start;
    size_t length;
} Token;

typedef struct Variable { /* what a declaration declares: .align 8 .b8 name[16] */
    Token name;
    size_t bytes, alignment;
} Variable;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '$' || c == '%'; }

static void skip_blanks(Reader *reader)
{
    while (reader->at < reader->end) {
        size_t left = (size_t)(reader->end - reader->at);
        if (isspace((unsigned char)*reader->at)) {
            reader->at++;
        } else if (left >= 2 && !strncmp(reader->at, "//", 2)) {
            const char *line_end = memchr(reader->at, '\n', left);
            reader->at = line_end ? line_end : reader->end;
        } else if (left >= 2 && !strncmp(reader->at, "/*", 2)) {
            const char *close = memmem(reader->at + 2, left - 2, "*/", 2);
            reader->at = close ? close + 2 : reader->end;
        } else if (*reader->at == '"') {
            const char *close = memchr(reader->at + 1, '"', left - 1);
            reader->at = close ? close + 1 : reader->end;
        } else {
            return;
        }
    }
}

static Token next(Reader *reader)
{
    skip_blanks(reader);
    Token token = {reader->at, 0};
    while (reader->at < reader->end && is_word(*reader->at)) reader->at++;
    if (reader->at == token.start && reader->at < reader->end) reader->at++;
    token.length = (size_t)(reader->at - token.start);
    return token;
}

static bool is(Token token, const char *text)
{
    return token.length == strlen(text) && !strncmp(token.start, text, token.length);
}

/* A token never runs to the very end of the image: PTX ends with a zero byte, which strtoul stops at. */
static size_t number(Token token) { return token.length ? strtoul(token.start, NULL, 0) : 0; }

/* The bytes of a type such as .u64 or .b8; 0 for any other word. */
static size_t type_bytes(Token token)
{
    if (token.length < 3 || token.start[0] != '.' || !strchr("busf", token.start[1])) return 0;
    size_t bits = 0;
    for (size_t i = 2; i < token.length; i++) {
        if (!isdigit((unsigned char)token.start[i]) || bits > 128) return 0;
        bits = bits * 10 + (size_t)(token.start[i] - '0');
    }
    return bits / 8;
}

/* Read a declaration to the token that ends it, one of `ends`, and return that. */
static Token read_variable(Reader *reader, const char *ends, Variable *variable)
{
    size_t element = 0, count = 1, vector = 1;
    *variable = (Variable){.alignment = 0};
    for (;;) {
        Token token = next(reader);
        bool over = token.length == 0 || (token.length == 1 && strchr(ends, *token.start));
        if (over) {
            variable->bytes = element * count * vector;
            if (!variable->alignment) variable->alignment = element ? element * vector : 1;
            return token;
        }
        if (is(token, ".align") && !element) {
            variable->alignment = number(next(reader));
        } else if (is(token, ".v2") || is(token, ".v4")) {
            vector = token.start[2] == '2' ? 2 : 4;
        } else if (is(token, "[")) {
            count *= number(next(reader));
        } else if (!element && type_bytes(token)) {
            element = type_bytes(token);
        } else if (element && *token.start != '.' && *token.start != ']' && !variable->name.length) {
            variable->name = token;
        }
    }
}

static void read_parameters(Reader *reader, Kernel *kernel)
{
    size_t offset = 0;
    Token end;
    do {
        Variable parameter;
        end = read_variable(reader, ",)", &parameter);
        if (!parameter.name.length || kernel->parameter_count >= MAX_PARAMETERS) continue;
        offset = (offset + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
        kernel_add_parameter(kernel, (unsigned)kernel->parameter_count, (unsigned)(offset & 0xffff),
                             (unsigned)(parameter.bytes & 0xffff));
        offset += parameter.bytes;
    } while (is(end, ","));
}

static void read_launch_bounds(Reader *reader, Kernel *kernel)
{
    size_t threads = 1;
    Reader look = *reader;
    do {
        threads *= number(next(reader));
        look = *reader;
    } while (is(next(&look), ",") && (*reader = look, true));
    if (threads >= 1 && threads <= MAX_THREADS_PER_BLOCK) kernel->max_threads = (int)threads;
}

/* From behind a function's opening brace to behind its closing one; adds up its shared variables. */
static void read_body(Reader *reader, Kernel *kernel)
{
    for (int depth = 1; depth > 0;) {
        Token token = next(reader);
        if (!token.length) return;
        if (is(token, "{")) depth++;
        if (is(token, "}")) depth--;
        if (kernel && is(token, ".shared")) {
            Variable shared;
            read_variable(reader, ";=", &shared);
            kernel->static_shared_bytes += (int)(shared.bytes & 0xffffff);
        }
    }
}

static void read_function(Reader *reader, Library *library, bool entry)
{
    Kernel *kernel = NULL;
    if (entry) {
        Token name = next(reader);
        if (!name.length) return;
        kernel = library_add_kernel(library, name.start, name.length);
        kernel->registers = GUESSED_REGISTERS;
        kernel->parameter_count = 0;
    }
    for (Token token = next(reader); token.length && !is(token, ";"); token = next(reader)) {
        if (is(token, "(") && kernel) read_parameters(reader, kernel);
        if (is(token, ".maxntid") && kernel) read_launch_bounds(reader, kernel);
        if (is(token, "{")) {
            read_body(reader, kernel);
            return;
        }
    }
}

static CUresult read_global(Reader *reader, Library *library, bool visible, Context *context)
{
    Variable variable;
    Token end = read_variable(reader, ";=", &variable);
    while (end.length && !is(end, ";")) end = next(reader); /* past the initializer */
    if (!visible || !variable.name.length) return CUDA_SUCCESS;
    char *name = duplicate_text(variable.name.start, variable.name.length);
    CUresult result = library_add_global(library, name, variable.bytes, NULL, context);
    free(name);
    return result;
}

CUresult ptx_read(Library *library, Bytes image, Context *context)
{
    Reader reader = {(const char *)image.data, (const char *)image.data + image.size};
    bool versioned = false, visible = false;
    for (Token token = next(&reader); token.length; token = next(&reader)) {
        if (is(token, ".version")) versioned = true;
        if (!versioned) break; /* no PTX: it must begin with its version */
        if (is(token, ".target")) {
            Token target = next(&reader);
            bool known = target.length > 3 && !strncmp(target.start, "sm_", 3);
            library->capability = known ? (int)(strtoul(target.start + 3, NULL, 10) & 0xffff) : 0;
        } else if (is(token, ".entry") || is(token, ".func")) {
            read_function(&reader, library, is(token, ".entry"));
        } else if (is(token, ".global") || is(token, ".const")) {
            CHECK(read_global(&reader, library, visible, context));
        }
        visible = is(token, ".visible");
    }
    library->portable = true;
    return versioned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
