/* SPDX-License-Identifier: MIT
 *
 * The plain mutex.
 */
#include <pthread.h>

#include "os/os.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(sl_mutex), "room for a mutex");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(sl_mutex), "alignment of a mutex");

static pthread_mutex_t *native(sl_mutex *mutex)
{
    return (pthread_mutex_t *)(void *)mutex;
}

void sl_mutex_init(sl_mutex *mutex)
{
    pthread_mutex_init(native(mutex), NULL);
}

void sl_mutex_finish(sl_mutex *mutex)
{
    pthread_mutex_destroy(native(mutex));
}

void sl_mutex_lock(sl_mutex *mutex)
{
    pthread_mutex_lock(native(mutex));
}

void sl_mutex_unlock(sl_mutex *mutex)
{
    pthread_mutex_unlock(native(mutex));
}
