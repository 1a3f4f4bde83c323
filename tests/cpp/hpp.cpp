// SPDX-License-Identifier: MIT
//
// sluice.hpp: frames through a channel, results with and without exceptions, objects that end once. Whoever starts it
// sets SLUICE_DIR.
#include <sluice/sluice.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

static int checks, failures;

static void check(bool good, const char *what)
{
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++checks, what);
    failures += !good;
}

// What must not compile: a second owner of a handle.
template <class T>
constexpr bool moves_only = std::is_nothrow_move_constructible<T>::value &&std::is_nothrow_move_assignable<T>::value &&
                            !std::is_copy_constructible<T>::value && !std::is_copy_assignable<T>::value;
static_assert(moves_only<sluice::frame> && moves_only<sluice::writer_frame>);
static_assert(moves_only<sluice::device> && moves_only<sluice::stream> && moves_only<sluice::event>);
// A handle of an object that is about to end.
static_assert(!std::is_convertible<sluice::stream &&, sluice_stream>::value);
static_assert(std::is_convertible<sluice::stream &, sluice_stream>::value);

struct pixel {
    unsigned char r, g, b, a;
};

static void send(sluice::writer &writer, unsigned char value)
{
    auto frame = writer.begin();
    auto bytes = frame->as<unsigned char>().value();
    std::fill(bytes.begin(), bytes.end(), value);
    frame->commit().value();
}

static void frames()
{
    auto format = sluice::format::image(SLUICE_PIXEL_RGBA, 64, 48).value();
    auto writer = sluice::writer::open("cpp", format).value();
    auto reader = sluice::reader::open("cpp").value();

    send(writer, 7);
    auto frame = reader.acquire().value();
    check(frame.sequence() == 1 && frame.as<unsigned char>("image").value().size() == 64 * 48 * 4, "a frame as bytes");
    check(frame.as<pixel>().value()[64 * 48 - 1].b == 7, "as structs");
    check(frame.as<float>().code() == SLUICE_E_FORMAT, "not as another type");
    check(frame.array("depth").code() == SLUICE_E_NOT_FOUND && std::strstr(frame.array("depth").message(), "image"),
          "an array that is not there");
    check(frame.check().code() == 0, "the frame is whole");

    sluice::frame moved = std::move(frame);
    check(!frame && moved && frame.as<unsigned char>().code() == SLUICE_E_STALE,
          "an object that was moved from is empty");
    check(frame.release().code() == SLUICE_E_STALE && reader.stats()->held == 1, "and releases nothing");
    check(moved.release().code() == 0 && !moved && moved.release().code() == SLUICE_E_STALE, "one release, not two");
    check(reader.stats()->held == 0, "then the reader holds no frame");

    check(reader.acquire(0).code() == SLUICE_TIMEOUT, "no frame is a result, no failure");
    send(writer, 8);
    {
        auto held = reader.acquire().value();
    }
    check(reader.stats()->held == 0, "a frame is released with its object");
    {
        auto begun = writer.begin().value();
    }
    check(writer.stats()->cancelled == 1, "one that was not committed is cancelled");
    auto begun = writer.begin().value();
    check(begun.commit().code() == 0 && begun.commit().code() == SLUICE_E_STALE &&
              begun.as<float>().code() == SLUICE_E_STALE,
          "one commit, not two");

    auto last = reader.acquire().value();
    { // the reader closes, but not before its frame
        sluice::reader gone = std::move(reader);
    }
    check(last.as<unsigned char>().value()[0] <= 8 && last.release().code() == 0, "a frame outlives its reader");
    check(reader.acquire(0).code() == SLUICE_E_INVALID, "a reader that was moved from has no frames");
}

static void tensors()
{
    auto format = sluice::format::tensor<float>({ 2, 3 }).value();
    format.add_tensor<int16_t>("ids", { 4 }).value();
    auto writer = sluice::writer::open("tensors", format).value();
    auto reader = sluice::reader::open("tensors").value();

    auto begun = writer.begin().value();
    begun.as<float>("tensor").value()[5] = 2.5f;
    begun.as<int16_t>("ids").value()[3] = -4;
    begun.c().capture_ns = 123;
    begun.commit().value();
    auto frame = reader.acquire().value();
    check(frame.as<float>().value()[5] == 2.5f && frame.as<int16_t>("ids").value()[3] == -4, "tensors by type");
    check(frame.as<double>().code() == SLUICE_E_FORMAT && frame.c().capture_ns == 123, "fields of the frame");

    auto again = writer.begin().value();
    check(again.inherit(frame).code() == 0 && again.c().capture_ns == 123 && again.cancel().code() == 0,
          "times are inherited");
    check(writer.reformat(sluice::format::tensor<uint8_t>({ 9 }).value()).code() == 0, "a new format");
}

static void streams()
{
    auto device = sluice::device::open("host").value();
    auto one = device.create_stream().value(), other = device.create_stream().value();
    auto start = device.create_event(SLUICE_EVENT_TIMING).value(),
         stop = device.create_event(SLUICE_EVENT_TIMING).value();

    check(start.query().code() == SLUICE_E_NOT_RECORDED, "an event that was not recorded");
    start.record(one).value();
    other.wait(start).value();
    other.wait(one).value();
    stop.record(other).value();
    check(start.elapsed(stop).value() >= 0 && other.synchronize() && device.synchronize(), "streams and events");
    check(device.default_stream()->id != 0 && device.wrap_stream(5), "other streams");

    sluice::stream moved = std::move(one);
    check(!one && moved && one.synchronize().code() < 0, "a stream that was moved from is empty");
    check(moved.close() && !moved && moved.close(), "closed once");
    check(sluice::device::open("nonsense").code() == SLUICE_E_INVALID, "a device that is none");
}

static void failures_are_told()
{
    auto none = sluice::reader::open("nobody");
    check(!none && none.code() == SLUICE_E_NOT_FOUND && std::strstr(none.message(), "nobody"), "a failure as a value");
#if defined(__cpp_exceptions)
    bool caught = false;
    try {
        std::move(none).value();
    } catch (const sluice::error &error) {
        caught = error.code() == SLUICE_E_NOT_FOUND && std::strstr(error.what(), "nobody");
    }
    check(caught, "and as an exception");
#endif
}

int main()
{
    frames();
    tensors();
    streams();
    failures_are_told();
    std::printf("1..%d\n", checks);
    return failures != 0;
}
