/* SPDX-License-Identifier: MIT
 *
 * The plain mutex.
 */
#include <pthread.h>

#include "harness/test.h"
#include "os/os.h"

static sl_mutex mutex;
static long count;

static void *add(void *argument)
{
    for (long i = 0; i < 20000; i++) {
        sl_mutex_lock(&mutex);
        count++;
        sl_mutex_unlock(&mutex);
    }
    return argument;
}

TEST(mutex_lets_one_in)
{
    pthread_t threads[4];
    sl_mutex_init(&mutex);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    sl_mutex_finish(&mutex);
    CHECK_EQ(count, 80000);
}
