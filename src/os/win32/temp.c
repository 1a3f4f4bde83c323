/* SPDX-License-Identifier: MIT
 *
 * Whole files. Temporary folders are for compilers, which are not run here (spawn.c).
 */
#include "os/win32/win32.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH = 4096 };

int sl_os_temp_make(char *path, size_t size)
{
    (void)path;
    (void)size;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Sluice makes no temporary folders on Windows");
}

void sl_os_temp_remove(const char *path)
{
    (void)path;
}

static FILE *open_file(const char *path, const wchar_t *mode)
{
    wchar_t wide[PATH];

    if (sl_wide(path, wide, PATH))
        return _wfopen(wide, mode);
    errno = ENOENT;
    return NULL;
}

int sl_os_file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = open_file(path, L"wbx");

    if (!file)
        return sl_fail_errno(errno, "making %s", path);
    bool written = fwrite(bytes, 1, size, file) == size;
    if (fclose(file) != 0 || !written)
        return sl_fail_errno(errno, "writing %s", path);
    return 0;
}

int sl_os_file_read(const char *path, void **bytes, size_t *size)
{
    FILE *file = open_file(path, L"rb");
    int64_t length = -1;
    char *text = NULL;

    if (!file)
        return sl_fail_errno(errno, "reading %s", path);
    if (_fseeki64(file, 0, SEEK_END) == 0)
        length = _ftelli64(file);
    rewind(file);
    if (length >= 0)
        text = malloc((size_t)length + 1);
    int r = length < 0 ? sl_fail_errno(errno, "reading %s", path)
            : !text    ? sl_fail(SLUICE_E_NO_MEMORY, "no memory for %s, of %" PRId64 " bytes", path, length)
            : fread(text, 1, (size_t)length, file) != (size_t)length ? sl_fail_errno(errno, "reading %s", path)
                                                                     : 0;
    fclose(file);
    if (r != 0) {
        free(text);
        return r;
    }
    text[length] = '\0';
    *bytes = text;
    *size = (size_t)length;
    return 0;
}
