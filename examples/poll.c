/* SPDX-License-Identifier: MIT
 *
 * A reader in a program that has an event loop of its own: waits for frames and for the keyboard in one
 * poll. usage: poll CHANNEL; Return ends it.
 */
#include <poll.h>
#include <stdio.h>

#include <sluice/sluice.h>

/* Takes all frames that are there. Returns false when the channel has ended. */
static int take_frames(sluice_reader *reader)
{
    struct sluice_frame frame;
    int r;

    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == 0) {
        printf("frame %llu, %llu missed\n", (unsigned long long)frame.sequence, (unsigned long long)frame.missed);
        sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    }
    if (r == SLUICE_TIMEOUT || r == SLUICE_AGAIN || r == SLUICE_NO_WRITER)
        return 1; /* nothing more for now: back to poll */
    fprintf(stderr, "%s\n", sluice_last_error());
    return 0;
}

int main(int argc, char **argv)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    if (argc != 2)
        return fprintf(stderr, "usage: %s CHANNEL\n", argv[0]), 2;
    params.name = argv[1];
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = SLUICE_LATER; /* no writer yet? The descriptor becomes readable when there is one */
    if (sluice_reader_open(&reader, &params) != 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    struct pollfd fds[] = {
        { .fd = sluice_reader_fd(reader), .events = POLLIN },
        { .fd = 0, .events = POLLIN },
    };
    while (poll(fds, 2, -1) > 0 && !fds[1].revents)
        if (fds[0].revents && !take_frames(reader))
            break;
    return sluice_reader_close(&reader);
}
