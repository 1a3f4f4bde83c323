/* SPDX-License-Identifier: MIT
 *
 * The loss of a reader's device, and with it of all its work there.
 */
#include "native/reader/reader.h"

void sl_reader_disconnect(struct sl_reader *reader)
{
    sl_service_lock();
    if (reader->join)
        sl_join_close(reader->join, true);
    reader->join = NULL;
    /* Acquire reports the loss, which a release may have noticed. The descriptor stays readable. */
    sl_wake_with_news(reader);
    sl_service_unlock();
}
