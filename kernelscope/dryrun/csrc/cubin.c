/* Reading a cubin: an ELF file whose sections describe the kernels in it.
 *
 *   .symtab          kernels (functions marked as entries) and global variables
 *   .nv.info         for each kernel: registers and stack frame
 *   .nv.info.NAME    parameters and launch bounds of one kernel
 *   .nv.shared.NAME  its static shared memory
 *   .nv.constant3    constant variables
 *
 * NVIDIA documents the format only in part; what is used here was compared with what ptxas -v prints, for
 * capabilities 7.5 to 12.0. Nothing in the file is trusted: every offset is checked against the copied image. */
#include "driver.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define EM_CUDA_MACHINE 190
#define ENTRY_FLAG 0x10        /* in a symbol's st_other: the function is a kernel */
#define MAX_PARAMETERS 4096
#define RESERVED_SHARED 1024   /* from 9.0 on, .nv.shared counts the KiB that the system takes of each block */

/* Attribute numbers in .nv.info, and the format of an attribute that brings data along. */
enum { FORMAT_SIZED = 4 };
enum {
    INFO_MAX_THREADS = 0x05, INFO_FRAME_SIZE = 0x11, INFO_PARAMETER = 0x17, INFO_REGISTERS = 0x2f,
    INFO_CLUSTER = 0x3d,
};

typedef struct Section {
    const char *name;
    Bytes body; /* no data when it takes no room in the file */
    uint64_t size;
    uint32_t type, link;
} Section;

typedef struct Cubin {
    Section *sections;
    unsigned section_count;
    const Section *symbols, *symbol_names;
    int capability;
} Cubin;

static uint32_t word(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* A text inside a string table, or "" when it is not wholly inside. */
static const char *text_at(const Section *table, size_t offset)
{
    if (!table || offset >= table->body.size) return "";
    const char *text = (const char *)table->body.data + offset;
    return memchr(text, 0, table->body.size - offset) ? text : "";
}

static bool inside(Bytes image, uint64_t offset, uint64_t size)
{
    return offset <= image.size && size <= image.size - offset;
}

static bool find_sections(Cubin *cubin, Bytes image)
{
    Elf64_Ehdr header;
    if (image.size < sizeof header) return false;
    memcpy(&header, image.data, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA_MACHINE ||
        header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
        !inside(image, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr)))
        return false;
    /* The capability moved up by a byte in the eighth version of the format. */
    cubin->capability = header.e_flags >> (header.e_ident[EI_ABIVERSION] >= 8 ? 8 : 0) & 0xff;
    cubin->section_count = header.e_shnum;
    cubin->sections = allocate(header.e_shnum, sizeof *cubin->sections);
    uint32_t *names = allocate(header.e_shnum, sizeof *names);
    bool good = true;
    for (unsigned i = 0; good && i < header.e_shnum; i++) {
        Elf64_Shdr entry;
        memcpy(&entry, image.data + header.e_shoff + i * sizeof entry, sizeof entry);
        Section *section = &cubin->sections[i];
        *section = (Section){.size = entry.sh_size, .type = entry.sh_type, .link = entry.sh_link};
        names[i] = entry.sh_name;
        if (entry.sh_type == SHT_NOBITS || entry.sh_type == SHT_NULL) continue;
        good = inside(image, entry.sh_offset, entry.sh_size);
        section->body = (Bytes){image.data + (good ? entry.sh_offset : 0), good ? entry.sh_size : 0};
    }
    for (unsigned i = 0; i < header.e_shnum; i++)
        cubin->sections[i].name = text_at(&cubin->sections[header.e_shstrndx], names[i]);
    free(names);
    return good;
}

static bool find_symbols(Cubin *cubin)
{
    for (unsigned i = 0; i < cubin->section_count; i++) {
        const Section *section = &cubin->sections[i];
        if (section->type != SHT_SYMTAB || section->link >= cubin->section_count) continue;
        cubin->symbols = section;
        cubin->symbol_names = &cubin->sections[section->link];
        return true;
    }
    return false;
}

static bool symbol_at(const Cubin *cubin, size_t index, Elf64_Sym *symbol)
{
    if (index >= cubin->symbols->body.size / sizeof *symbol) return false;
    memcpy(symbol, cubin->symbols->body.data + index * sizeof *symbol, sizeof *symbol);
    return true;
}

/* ---- what the sections say ---- */

static CUresult add_global(Library *library, const Cubin *cubin, const Elf64_Sym *symbol, Context *context)
{
    const Section *section = &cubin->sections[symbol->st_shndx];
    bool variable = !strncmp(section->name, ".nv.global", 10) || !strncmp(section->name, ".nv.constant", 12);
    if (!variable) return CUDA_SUCCESS;
    const unsigned char *value = NULL;
    if (section->body.data && inside(section->body, symbol->st_value, symbol->st_size)) {
        value = section->body.data + symbol->st_value;
    }
    REQUIRE(value || !section->body.data, CUDA_ERROR_INVALID_IMAGE);
    return library_add_global(library, text_at(cubin->symbol_names, symbol->st_name), symbol->st_size, value, context);
}

static CUresult read_symbols(Library *library, const Cubin *cubin, Context *context)
{
    Elf64_Sym symbol;
    for (size_t i = 0; symbol_at(cubin, i, &symbol); i++) {
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= cubin->section_count) continue;
        const char *name = text_at(cubin->symbol_names, symbol.st_name);
        int type = ELF64_ST_TYPE(symbol.st_info);
        if (type == STT_FUNC && symbol.st_other & ENTRY_FLAG && *name) {
            library_add_kernel(library, name, strlen(name))->parameter_count = 0;
        } else if (type == STT_OBJECT && *name) {
            CHECK(add_global(library, cubin, &symbol, context));
        }
    }
    return CUDA_SUCCESS;
}

static Kernel *kernel_of_symbol(const Library *library, const Cubin *cubin, uint32_t index)
{
    Elf64_Sym symbol;
    if (!symbol_at(cubin, index, &symbol)) return NULL;
    const char *name = text_at(cubin->symbol_names, symbol.st_name);
    return library_find_kernel(library, name, strlen(name));
}

/* One attribute of .nv.info (kernel is NULL) or of .nv.info.NAME. */
static void read_attribute(Library *library, const Cubin *cubin, Kernel *kernel, int number, Bytes value)
{
    const unsigned char *at = value.data;
    if (!kernel && value.size >= 8 && (number == INFO_REGISTERS || number == INFO_FRAME_SIZE)) {
        Kernel *described = kernel_of_symbol(library, cubin, word(at));
        if (!described) return;
        if (number == INFO_REGISTERS) {
            described->registers = (int)(word(at + 4) & 0xff);
        } else {
            described->local_bytes = (int)(word(at + 4) & 0xffffff);
        }
    } else if (kernel && number == INFO_PARAMETER && value.size >= 12) {
        /* words: index, ordinal (16 bits) and offset (16 bits), flags (18 bits) and size (14 bits) */
        uint32_t ordinal = word(at + 4) & 0xffff;
        if (ordinal < MAX_PARAMETERS) kernel_add_parameter(kernel, ordinal, word(at + 4) >> 16, word(at + 8) >> 18);
    } else if (kernel && number == INFO_MAX_THREADS && value.size >= 12) {
        uint64_t threads = (uint64_t)word(at) * (word(at + 4) & 0xffff) * (word(at + 8) & 0xffff);
        if (threads >= 1 && threads <= MAX_THREADS_PER_BLOCK) kernel->max_threads = (int)threads;
    } else if (kernel && number == INFO_CLUSTER && value.size >= 12) {
        for (int i = 0; i < 3; i++) kernel->required_cluster[i] = word(at + 4 * i) & 0xff;
    }
}

static void read_info(Library *library, const Cubin *cubin, Kernel *kernel, Bytes info)
{
    size_t at = 0;
    while (info.size - at >= 4) {
        const unsigned char *head = info.data + at;
        size_t size = head[0] == FORMAT_SIZED ? (size_t)(head[2] | head[3] << 8) : 0;
        at += 4;
        if (size > info.size - at) return;
        if (size) read_attribute(library, cubin, kernel, head[1], (Bytes){info.data + at, size});
        at += size;
    }
}

static Kernel *kernel_of_section(const Library *library, const Section *section, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(section->name, prefix, length) != 0) return NULL;
    return library_find_kernel(library, section->name + length, strlen(section->name + length));
}

static void read_section(Library *library, const Cubin *cubin, const Section *section)
{
    Kernel *kernel = NULL;
    if (!strcmp(section->name, ".nv.info")) {
        read_info(library, cubin, NULL, section->body);
    } else if ((kernel = kernel_of_section(library, section, ".nv.info."))) {
        read_info(library, cubin, kernel, section->body);
    } else if ((kernel = kernel_of_section(library, section, ".nv.shared."))) {
        uint64_t reserved = cubin->capability >= 90 && section->size >= RESERVED_SHARED ? RESERVED_SHARED : 0;
        kernel->static_shared_bytes = (int)((section->size - reserved) & 0xffffff);
    } else if (!strcmp(section->name, ".nv.constant3")) {
        for (unsigned i = 0; i < library->kernel_count; i++)
            library->kernels[i]->constant_bytes = (int)(section->size & 0xffffff);
    }
}

CUresult cubin_read(Library *library, Bytes image, Context *context)
{
    Cubin cubin = {0};
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (find_sections(&cubin, image) && find_symbols(&cubin)) {
        library->capability = cubin.capability;
        result = read_symbols(library, &cubin, context);
        for (unsigned i = 0; result == CUDA_SUCCESS && i < cubin.section_count; i++)
            read_section(library, &cubin, &cubin.sections[i]);
    }
    free(cubin.sections);
    return result;
}
