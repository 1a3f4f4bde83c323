/* SPDX-License-Identifier: MIT
 *
 * Each thread's compile log: the compiler's output at its last load of a source.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* of a thread's text, which is freed when the thread ends */
static bool usable;

static void make_key(void)
{
    usable = pthread_key_create(&key, free) == 0;
}

void sl_compile_log_set(const char *text)
{
    pthread_once(&once, make_key);
    if (!usable)
        return;
    char *copy = text && *text ? strdup(text) : NULL;
    free(pthread_getspecific(key));
    if (pthread_setspecific(key, copy) != 0)
        free(copy);
}

const char *sl_compile_log_text(void)
{
    pthread_once(&once, make_key);
    const char *log = usable ? pthread_getspecific(key) : NULL;
    return log ? log : "";
}

size_t sl_compile_log(char *text, size_t size)
{
    const char *log = sl_compile_log_text();

    if (size > 0)
        snprintf(text, size, "%s", log);
    return strlen(log);
}
