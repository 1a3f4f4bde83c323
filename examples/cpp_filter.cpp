// SPDX-License-Identifier: MIT
//
// A filter in C++ with OpenCV: blurs each picture of one channel into another, from slot to slot.
//
//     example-cpp-filter FROM TO
#include <cstdio>

#include <opencv2/imgproc.hpp>
#include <sluice/sluice.hpp>

// A picture of a frame as OpenCV sees it: the same memory, valid until the frame ends.
static cv::Mat mat(const sluice_array &array)
{
    const sluice_image &image = array.image;
    return { static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC4,
             static_cast<char *>(array.data) + image.planes[0].offset, static_cast<size_t>(image.planes[0].pitch) };
}

// Every picture until the writer closes the channel.
static void run(const char *from, const char *to)
{
    auto reader = sluice::reader::open(from, 10 * SLUICE_S).value();
    sluice::writer writer;

    for (;;) {
        auto in = reader.acquire();
        if (in.code() == SLUICE_CLOSED)
            return;
        if (in.code() > 0)
            continue; // nothing new within a second, or the writer is being restarted
        sluice_array picture = in.value().array().value();
        if (picture.image.pixel_format != SLUICE_PIXEL_RGBA && picture.image.pixel_format != SLUICE_PIXEL_BGRA)
            throw sluice::error(SLUICE_E_FORMAT, "this example is for RGBA and BGRA");
        if (in->c().flags & SLUICE_FRAME_NEW_FORMAT) { // also with the first frame
            auto pixel = static_cast<sluice_pixel_format>(picture.image.pixel_format);
            auto format = sluice::format::image(pixel, picture.image.width, picture.image.height).value();
            if (writer)
                writer.reformat(format).value();
            else
                writer = sluice::writer::open(to, format).value();
        }
        auto out = writer.begin();
        if (!out)
            continue; // readers hold every slot: this frame is dropped
        cv::Mat target = mat(out->array().value());
        cv::blur(mat(picture), target, { 9, 9 });
        out->inherit(*in).value();
        out->commit().value();
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return std::fprintf(stderr, "usage: %s FROM TO\n", argv[0]), 2;
    try {
        run(argv[1], argv[2]);
    } catch (const sluice::error &error) {
        return std::fprintf(stderr, "%s\n", error.what()), 1;
    }
}
