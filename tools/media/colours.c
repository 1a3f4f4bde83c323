/* SPDX-License-Identifier: MIT
 *
 * Numbers of ITU-T H.273 by ffmpeg's names; and ffmpeg's own name.
 */
#include "media.h"

#include <stdlib.h>

#define NAME(list, number) ((number) < sizeof(list) / sizeof(list)[0] ? (list)[number] : NULL)

const char *media_matrix_name(unsigned matrix)
{
    static const char *const names[] = {
        [1] = "bt709",     [4] = "fcc",   [5] = "bt470bg",  [6] = "smpte170m",
        [7] = "smpte240m", [8] = "ycgco", [9] = "bt2020nc", [10] = "bt2020c",
    };
    return NAME(names, matrix);
}

const char *media_primaries_name(unsigned primaries)
{
    static const char *const names[] = {
        [1] = "bt709",  [4] = "bt470m",    [5] = "bt470bg",   [6] = "smpte170m", [7] = "smpte240m",  [8] = "film",
        [9] = "bt2020", [10] = "smpte428", [11] = "smpte431", [12] = "smpte432", [22] = "jedec-p22",
    };
    return NAME(names, primaries);
}

const char *media_transfer_name(unsigned transfer)
{
    static const char *const names[] = {
        [1] = "bt709",         [4] = "bt470m",     [5] = "bt470bg",       [6] = "smpte170m",
        [7] = "smpte240m",     [8] = "linear",     [9] = "log100",        [10] = "log316",
        [11] = "iec61966-2-4", [12] = "bt1361e",   [13] = "iec61966-2-1", [14] = "bt2020-10",
        [15] = "bt2020-12",    [16] = "smpte2084", [17] = "smpte428",     [18] = "arib-std-b67",
    };
    return NAME(names, transfer);
}

const char *media_ffmpeg(void)
{
    const char *path = getenv("SLUICE_FFMPEG");
    return path && *path ? path : "ffmpeg";
}
