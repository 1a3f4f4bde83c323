/* SPDX-License-Identifier: MIT
 *
 * A driver that has only its version.
 */
__attribute__((visibility("default"))) int cuDriverGetVersion(int *version);

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
