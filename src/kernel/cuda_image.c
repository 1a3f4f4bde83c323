/* SPDX-License-Identifier: MIT
 *
 * Checks PTX and binaries before the driver gets them: it gets only their address, and trusts the sizes that they
 * contain.
 */
#include "kernel/cuda.h"

#include <elf.h>
#include <string.h>

#include "util/result.h"

#define MACHINE_CUDA 190
#define FATBIN_MAGIC UINT32_C(0xba55ed50)

struct fatbin {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size; /* of the bytes after the header */
};

/* In those bytes each image has one of these before it. */
struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t size;
};

static bool fits(uint64_t offset, uint64_t length, size_t size)
{
    return offset <= size && length <= size - offset;
}

static bool sections_fit(const unsigned char *bytes, size_t size, const Elf64_Ehdr *head)
{
    Elf64_Shdr section;

    for (uint64_t i = 0; i < head->e_shnum; i++) {
        memcpy(&section, bytes + head->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
            !fits(section.sh_offset, section.sh_size, size))
            return false;
    }
    return true;
}

static bool segments_fit(const unsigned char *bytes, size_t size, const Elf64_Ehdr *head)
{
    Elf64_Phdr segment;

    for (uint64_t i = 0; i < head->e_phnum; i++) {
        memcpy(&segment, bytes + head->e_phoff + i * sizeof segment, sizeof segment);
        if (!fits(segment.p_offset, segment.p_filesz, size))
            return false;
    }
    return true;
}

static bool is_cubin(const unsigned char *bytes, size_t size)
{
    Elf64_Ehdr head;

    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    return head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_ident[EI_DATA] == ELFDATA2LSB &&
           head.e_machine == MACHINE_CUDA && head.e_shnum > 0 && head.e_shentsize == sizeof(Elf64_Shdr) &&
           head.e_shstrndx < head.e_shnum && fits(head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr), size) &&
           (head.e_phnum == 0 || head.e_phentsize == sizeof(Elf64_Phdr)) &&
           fits(head.e_phoff, (uint64_t)head.e_phnum * sizeof(Elf64_Phdr), size) && sections_fit(bytes, size, &head) &&
           segments_fit(bytes, size, &head);
}

static bool is_fatbin(const unsigned char *bytes, size_t size)
{
    struct fatbin head;
    struct fatbin_entry entry;

    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.header < sizeof head || !fits(head.header, head.size, size) || head.size == 0)
        return false;
    uint64_t at = head.header, end = head.header + head.size;
    while (at < end) {
        if (!fits(at, sizeof entry, end))
            return false;
        memcpy(&entry, bytes + at, sizeof entry);
        if (entry.header < sizeof entry || !fits(at, entry.header, end) || !fits(at + entry.header, entry.size, end))
            return false;
        at += entry.header + entry.size;
    }
    return true;
}

int sl_cuda_image_check(const char *name, const void *bytes, size_t size, bool own)
{
    uint32_t magic = 0;

    memcpy(&magic, bytes, size < sizeof magic ? size : sizeof magic);
    if (size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0)
        return is_cubin(bytes, size) ? 0 : sl_fail(SLUICE_E_INVALID, "%s is not a complete cubin", name);
    if (magic == FATBIN_MAGIC)
        return is_fatbin(bytes, size) ? 0 : sl_fail(SLUICE_E_INVALID, "%s is not a complete fatbin", name);
    if (!own && memchr(bytes, 0, size))
        return sl_fail(SLUICE_E_INVALID, "%s contains a byte of 0, but is neither a cubin nor a fatbin", name);
    return 0;
}
