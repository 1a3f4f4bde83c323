/* SPDX-License-Identifier: MIT
 *
 * Asking a camera what it can do: it is better to get the pixels that the channel takes than to convert them.
 */
#include "camera.h"

#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../common/term.h"

/* Video4Linux's code for a pixel format of channels; 0: none. */
static uint32_t camera_code(enum sluice_pixel_format format)
{
    switch (format) {
    case SLUICE_PIXEL_YUYV: return V4L2_PIX_FMT_YUYV;
    case SLUICE_PIXEL_UYVY: return V4L2_PIX_FMT_UYVY;
    case SLUICE_PIXEL_NV12: return V4L2_PIX_FMT_NV12;
    case SLUICE_PIXEL_YUV420P: return V4L2_PIX_FMT_YUV420;
    case SLUICE_PIXEL_GRAY8: return V4L2_PIX_FMT_GREY;
    case SLUICE_PIXEL_RGB24: return V4L2_PIX_FMT_RGB24;
    case SLUICE_PIXEL_BGR24: return V4L2_PIX_FMT_BGR24;
    default: return 0;
    }
}

/* True if the camera makes this size in this format; also if it does not say. */
static bool has_size(int fd, uint32_t code, uint32_t width, uint32_t height)
{
    struct v4l2_frmsizeenum size = { .pixel_format = code };
    if (!width || ioctl(fd, VIDIOC_ENUM_FRAMESIZES, &size) < 0)
        return true;
    if (size.type != V4L2_FRMSIZE_TYPE_DISCRETE)
        return width >= size.stepwise.min_width && width <= size.stepwise.max_width &&
               height >= size.stepwise.min_height && height <= size.stepwise.max_height;
    do {
        if (size.discrete.width == width && size.discrete.height == height)
            return true;
        size.index++;
    } while (ioctl(fd, VIDIOC_ENUM_FRAMESIZES, &size) == 0);
    return false;
}

/* True if the camera makes the channel's pixels in this size. Also says whether it makes the size at all. */
static bool makes_pixels(int fd, const struct source *source, bool *any)
{
    uint32_t code = camera_code(source->format);
    bool found = false;
    *any = false;
    struct v4l2_fmtdesc format = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
    for (; ioctl(fd, VIDIOC_ENUM_FMT, &format) == 0; format.index++) {
        bool fits = has_size(fd, format.pixelformat, source->width, source->height);
        *any |= fits;
        found |= fits && code && format.pixelformat == code;
    }
    if (format.index == 0)
        *any = true; /* it does not say */
    return found;
}

void camera_ask(struct child_args *a, const struct source *source, char size[32], char rate[32])
{
    int fd = open(source->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    bool any = true, found = fd >= 0 && makes_pixels(fd, source, &any);
    if (fd >= 0)
        close(fd);
    child_add(a, "-f", "v4l2", NULL);
    if (source->width) {
        snprintf(size, 32, "%ux%u", source->width, source->height);
        child_add(a, "-video_size", size, NULL);
        if (!any)
            say_error(source->command, "%s does not make %s; the nearest size that it makes is scaled.", source->name,
                      size);
    }
    if (source->fps > 0) {
        snprintf(rate, 32, "%.6f", source->fps);
        child_add(a, "-framerate", rate, NULL);
    }
    if (found)
        child_add(a, "-input_format", sluice_pixel_format_name(source->format), NULL);
}
