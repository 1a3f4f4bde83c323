/* SPDX-License-Identifier: MIT
 *
 * What Sluice uses of the format ELF, which a GPU's binaries have on every system.
 */
#ifndef SL_OS_WIN32_ELF_H
#define SL_OS_WIN32_ELF_H

#include <stdint.h>

#define ELFMAG      "\177ELF"
#define SELFMAG     4
#define EI_CLASS    4
#define EI_DATA     5
#define EI_NIDENT   16
#define ELFCLASS64  2
#define ELFDATA2LSB 1
#define SHT_NULL    0
#define SHT_NOBITS  8

typedef struct {
    unsigned char e_ident[EI_NIDENT];
    uint16_t e_type, e_machine;
    uint32_t e_version;
    uint64_t e_entry, e_phoff, e_shoff;
    uint32_t e_flags;
    uint16_t e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx;
} Elf64_Ehdr;

typedef struct {
    uint32_t sh_name, sh_type;
    uint64_t sh_flags, sh_addr, sh_offset, sh_size;
    uint32_t sh_link, sh_info;
    uint64_t sh_addralign, sh_entsize;
} Elf64_Shdr;

typedef struct {
    uint32_t p_type, p_flags;
    uint64_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
} Elf64_Phdr;

#endif
