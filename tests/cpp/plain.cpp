// SPDX-License-Identifier: MIT
//
// A C++17 program with default parameters: writes a frame and reads it, in one process. Whoever starts it
// sets SLUICE_DIR.
#include <sluice/sluice.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static int checks;

static void check(bool good, const char *what)
{
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++checks, what);
    if (good)
        return;
    std::printf("#   %s\nBail out! what follows needs it\n", sluice_last_error());
    std::exit(1);
}

static sluice_writer *open_writer()
{
    sluice_format format = SLUICE_FORMAT_INIT;
    check(sluice_format_add_image(&format, "colour", SLUICE_PIXEL_RGBA, 64, 48) == 0, "a format");

    sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    params.name = "cxx17";
    params.format = &format;
    sluice_writer *writer = nullptr;
    check(sluice_writer_open(&writer, &params) == 0, "a writer with default parameters");
    return writer;
}

static sluice_reader *open_reader()
{
    sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    params.name = "cxx17";
    sluice_reader *reader = nullptr;
    check(sluice_reader_open(&reader, &params) == 0, "a reader with default parameters");
    return reader;
}

static void write_frame(sluice_writer *writer)
{
    sluice_frame frame{};
    sluice_array array{};
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame) == 0, "begin");
    check(sluice_frame_array(&frame, nullptr, &array) == 0, "the writer's array");
    std::memset(array.data, 0x5a, static_cast<std::size_t>(array.nbytes));
    check(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU) == 0, "commit");
}

static void read_frame(sluice_reader *reader)
{
    sluice_frame frame{};
    sluice_array array{};
    check(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_DEFAULT, &frame) == 0, "acquire");
    check(sluice_frame_array(&frame, "colour", &array) == 0, "the reader's array");
    check(array.nbytes == 64 * 48 * 4, "its size");
    bool same = true;
    for (std::uint64_t i = 0; i < array.nbytes; i++)
        same = same && static_cast<const unsigned char *>(array.data)[i] == 0x5a;
    check(same, "its bytes");
    check(sluice_reader_release(reader, &frame, SLUICE_ON_CPU) == 0, "release");
}

int main()
{
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader();
    write_frame(writer);
    read_frame(reader);
    check(sluice_reader_close(&reader) == 0 && !reader, "the reader closes");
    check(sluice_writer_close(&writer) == 0 && !writer, "the writer closes");
    std::printf("1..%d\n", checks);
    return 0;
}
