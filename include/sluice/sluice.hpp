/* SPDX-License-Identifier: MIT
 *
 * Sluice for C++17: the C handles as move-only objects that end by themselves, and nothing that the C headers lack.
 * They say what each call does, on which thread, and when it blocks.
 *
 *     sluice::reader reader = sluice::reader::open("camera", 10 * SLUICE_S).value();
 *     while (auto frame = reader.acquire())
 *         show(frame->as<unsigned char>("image").value());
 *
 * Each call that can fail returns a result: test it and ask for its code, or take its value(), which throws an error.
 * Without exceptions (-fno-exceptions) value() of a failure writes the message to stderr and aborts.
 * An object that was moved from, or whose frame has ended, is empty: calls on it return SLUICE_E_STALE or another
 * failure of the C call, never undefined behaviour. One object is for one thread at a time, unless the C call that a
 * function is named after allows more.
 */
#ifndef SLUICE_HPP
#define SLUICE_HPP

#include <sluice/sluice.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

namespace sluice
{

/* ---- results ---- */

#if defined(__cpp_exceptions)
class error : public std::runtime_error
{
  public:
    error(int code, const char *message) : std::runtime_error(message), code_(code) {}
    /* One of enum sluice_result. */
    int code() const noexcept { return code_; }

  private:
    int code_;
};
#endif

/* A result other than 0. `text` is its message; nullptr: sluice_last_error() has it. */
struct failure {
    int code;
    const char *text = nullptr;
};

namespace detail
{
[[noreturn]] inline void raise(int code, const char *message)
{
#if defined(__cpp_exceptions)
    throw error(code, message);
#else
    static_cast<void>(code);
    std::fprintf(stderr, "sluice: %s\n", message);
    std::abort();
#endif
}

class status
{
  public:
    constexpr explicit status(failure failed) noexcept : failed_(failed) {}
    /* True if the call succeeded. */
    explicit operator bool() const noexcept { return failed_.code == 0; }
    /* 0; more than 0: not now, as SLUICE_TIMEOUT; less than 0: a failure. */
    int code() const noexcept { return failed_.code; }
    /* For a person; valid until the next call on this thread that fails. */
    const char *message() const noexcept
    {
        return failed_.text ? failed_.text : failed_.code ? sluice_last_error() : "";
    }

  protected:
    void need() const
    {
        if (failed_.code)
            raise(failed_.code, message());
    }

  private:
    failure failed_;
};
} // namespace detail

template <class T = void> class [[nodiscard]] result : public detail::status
{
  public:
    result(T value) : status(failure{ 0 }), value_(std::move(value)) {}
    result(failure failed) : status(failed), value_() {}
    T &value() &
    {
        need();
        return value_;
    }
    const T &value() const &
    {
        need();
        return value_;
    }
    T value() &&
    {
        need();
        return std::move(value_);
    }
    /* Only if the call succeeded. */
    T &operator*() noexcept { return value_; }
    const T &operator*() const noexcept { return value_; }
    T *operator->() noexcept { return &value_; }
    const T *operator->() const noexcept { return &value_; }

  private:
    T value_;
};

template <> class [[nodiscard]] result<void> : public detail::status
{
  public:
    result(int code) noexcept : status(failure{ code }) {}
    result(failure failed) noexcept : status(failed) {}
    void value() const { need(); }
};

/* ---- arrays ---- */

#if defined(__cpp_lib_span)
template <class T> using span = std::span<T>;
#else
/* What std::span of C++20 is used for here. */
template <class T> class span
{
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const { return data_[index]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* The data type of an arithmetic type. */
template <class T> constexpr sluice_dtype dtype() noexcept
{
    static_assert(std::is_arithmetic<T>::value, "Sluice has data types for arithmetic types");
    return { static_cast<uint8_t>(std::is_same<T, bool>::value       ? SLUICE_BOOL
                                  : std::is_floating_point<T>::value ? SLUICE_FLOAT
                                  : std::is_signed<T>::value         ? SLUICE_INT
                                                                     : SLUICE_UINT),
             static_cast<uint8_t>(8 * sizeof(T)), 1 };
}

namespace detail
{
template <class T>
constexpr bool is_byte = sizeof(T) == 1 && (std::is_same<T, std::byte>::value || std::is_same<T, unsigned char>::value);

inline bool is_dense(const sluice_array &array) noexcept
{
    int64_t stride = (array.dtype.bits * array.dtype.lanes + 7) / 8;
    for (int i = array.ndim - 1; i >= 0; i--) {
        if (array.shape[i] != 1 && array.strides[i] != stride)
            return false;
        stride *= array.shape[i];
    }
    return true;
}

/* Arithmetic types must be the array's. Bytes and structs see its memory as it is, padding between rows too. */
template <class T> result<span<T>> view(const sluice_array &array)
{
    using element = std::remove_const_t<T>;
    static_assert(std::is_trivially_copyable<element>::value, "elements are plain memory");
    if constexpr (std::is_arithmetic<element>::value && !is_byte<element>) {
        constexpr sluice_dtype wanted = dtype<element>();
        if (wanted.code != array.dtype.code || wanted.bits != array.dtype.bits || array.dtype.lanes != 1)
            return failure{ SLUICE_E_FORMAT, "the array has elements of another type" };
        if (!is_dense(array))
            return failure{ SLUICE_E_FORMAT, "there are gaps between the array's rows: use its strides" };
    }
    if (array.nbytes % sizeof(T) != 0)
        return failure{ SLUICE_E_FORMAT, "the array does not hold a whole number of such elements" };
    return span<T>(static_cast<T *>(array.data), static_cast<std::size_t>(array.nbytes) / sizeof(T));
}
} // namespace detail

/* ---- devices, streams, events ---- */

namespace detail
{
/* A C handle that ends with the object. */
template <class C, int (*End)(C *)> class handle
{
  public:
    handle() noexcept = default;
    /* Takes over a handle. */
    explicit handle(C c) noexcept : c_(c) {}
    handle(handle &&other) noexcept : c_(std::exchange(other.c_, C{})) {}
    handle &operator=(handle &&other) noexcept
    {
        std::swap(c_, other.c_);
        return *this;
    }
    ~handle() { End(&c_); }
    explicit operator bool() const noexcept { return c_.id != 0; }
    /* For the calls of C. It stays this object's, and must not be kept longer. */
    C get() const noexcept { return c_; }
    operator C() const &noexcept { return c_; }
    operator C() const && = delete;
    /* Ends it now. */
    result<> close() { return End(&c_); }

  protected:
    C c_{};
};

template <class T, class C> result<T> made(int code, C c)
{
    if (code)
        return failure{ code };
    return T(c);
}
} // namespace detail

class event : public detail::handle<sluice_event, sluice_event_destroy>
{
  public:
    using handle::handle;
    result<> record(sluice_stream stream) { return sluice_event_record(c_, stream); }
    result<> query() const { return sluice_event_query(c_); }
    result<> synchronize() const { return sluice_event_synchronize(c_); }
    /* Milliseconds from this one's mark to the other's. */
    result<double> elapsed(const event &stop) const
    {
        double milliseconds = 0;
        int code = sluice_event_elapsed(c_, stop.c_, &milliseconds);
        return code ? result<double>(failure{ code }) : result<double>(milliseconds);
    }
};

class stream : public detail::handle<sluice_stream, sluice_stream_destroy>
{
  public:
    using handle::handle;
    result<> wait(sluice_stream other) { return sluice_stream_wait_stream(c_, other); }
    result<> wait(const event &mark) { return sluice_stream_wait_event(c_, mark.get()); }
    result<> query() const { return sluice_stream_query(c_); }
    result<> synchronize() const { return sluice_stream_synchronize(c_); }
};

class device : public detail::handle<sluice_device, sluice_device_close>
{
  public:
    using handle::handle;
    static result<device> open(const char *name)
    {
        sluice_device c{};
        int code = sluice_device_open(&c, name);
        return detail::made<device>(code, c);
    }
    result<stream> create_stream(const sluice_stream_params *params = nullptr)
    {
        sluice_stream c{};
        int code = sluice_stream_create(c_, params, &c);
        return detail::made<stream>(code, c);
    }
    /* A stream that somebody else owns, and keeps alive for as long as the object. */
    result<stream> wrap_stream(uintptr_t native)
    {
        sluice_stream c{};
        int code = sluice_stream_wrap(c_, native, nullptr, nullptr, &c);
        return detail::made<stream>(code, c);
    }
    /* The device's: nothing has to end it. */
    result<sluice_stream> default_stream()
    {
        sluice_stream c{};
        int code = sluice_stream_default(c_, &c);
        return detail::made<sluice_stream>(code, c);
    }
    /* `flags`: of enum sluice_event_flags. */
    result<event> create_event(uint32_t flags = 0)
    {
        sluice_event c{};
        int code = sluice_event_create(c_, flags, &c);
        return detail::made<event>(code, c);
    }
    result<> synchronize() { return sluice_device_synchronize(c_); }
};

/* ---- formats ---- */

class format
{
  public:
    static result<format> image(sluice_pixel_format pixel, uint32_t width, uint32_t height, const char *name = "image")
    {
        format made;
        int code = sluice_format_add_image(&made.c_, name, pixel, width, height);
        return code ? result<format>(failure{ code }) : result<format>(made);
    }
    template <class T> static result<format> tensor(std::initializer_list<int64_t> shape, const char *name = "tensor")
    {
        format made;
        int code = made.add_tensor<T>(name, shape).code();
        return code ? result<format>(failure{ code }) : result<format>(made);
    }
    result<> add_image(const char *name, sluice_pixel_format pixel, uint32_t width, uint32_t height)
    {
        return sluice_format_add_image(&c_, name, pixel, width, height);
    }
    template <class T> result<> add_tensor(const char *name, std::initializer_list<int64_t> shape)
    {
        return sluice_format_add_tensor(&c_, name, dtype<T>(), static_cast<int>(shape.size()), shape.begin());
    }
    sluice_format &c() noexcept { return c_; }
    const sluice_format &c() const noexcept { return c_; }

  private:
    sluice_format c_ = SLUICE_FORMAT_INIT;
};

/* ---- frames ---- */

namespace detail
{
constexpr failure ended = { SLUICE_E_STALE, "the frame has ended, or was moved from" };

/* What the frames of readers and writers share. `Owner` is sluice_reader or sluice_writer; it stays open until its last
 * frame has ended. */
template <class Owner> class lent
{
  public:
    lent() noexcept = default;
    lent(std::shared_ptr<Owner> owner, const sluice_frame &c) noexcept : owner_(std::move(owner)), c_(c) {}
    /* False once it has ended. */
    explicit operator bool() const noexcept { return owner_ != nullptr; }
    /* Its fields: sequence, capture_ns, meta and so on. */
    sluice_frame &c() noexcept { return c_; }
    const sluice_frame &c() const noexcept { return c_; }
    uint64_t sequence() const noexcept { return c_.sequence; }
    /* The array of that name, or the first one. */
    result<sluice_array> array(const char *name = nullptr) const
    {
        sluice_array array{};
        if (!owner_)
            return ended;
        int code = sluice_frame_array(&c_, name, &array);
        return code ? result<sluice_array>(failure{ code }) : result<sluice_array>(array);
    }
    /* The frame will end behind the work on `stream`, too. */
    result<> used_on(sluice_stream stream) const
    {
        return owner_ ? result<>(sluice_frame_used_on(&c_, stream, nullptr, nullptr)) : result<>(ended);
    }

  protected:
    template <class T> result<span<T>> elements(const char *name) const
    {
        auto found = array(name);
        return found ? view<T>(*found) : result<span<T>>(failure{ found.code(), owner_ ? nullptr : ended.text });
    }
    void swap(lent &other) noexcept
    {
        owner_.swap(other.owner_);
        std::swap(c_, other.c_);
    }
    /* After a call that may have ended it. */
    result<> end(int code)
    {
        if (code == 0 || code == SLUICE_E_LOST || code == SLUICE_E_STALE)
            owner_.reset();
        return code;
    }

    std::shared_ptr<Owner> owner_;
    sluice_frame c_{};
};
} // namespace detail

/* A frame that a reader holds. It is released with the object, behind the work on the stream that it was acquired on.
 */
class frame : public detail::lent<sluice_reader>
{
  public:
    frame() noexcept = default;
    frame(std::shared_ptr<sluice_reader> reader, const sluice_frame &c, sluice_stream stream) noexcept
        : detail::lent<sluice_reader>(std::move(reader), c), stream_(stream)
    {
    }
    frame(frame &&other) noexcept { *this = std::move(other); }
    frame &operator=(frame &&other) noexcept
    {
        swap(other);
        std::swap(stream_, other.stream_);
        return *this;
    }
    ~frame()
    {
        if (owner_)
            sluice_reader_release(owner_.get(), &c_, stream_);
    }
    /* The elements of an array in host memory, valid until the frame ends. T: the array's own type, or unsigned char,
     * std::byte or a struct for its memory as it is. */
    template <class T> result<span<const T>> as(const char *name = nullptr) const { return elements<const T>(name); }
    /* Is it still whole? See sluice_reader_check. */
    result<> check() const
    {
        return owner_ ? result<>(sluice_reader_check(owner_.get(), &c_)) : result<>(detail::ended);
    }
    result<> release() { return release(stream_); }
    result<> release(sluice_stream stream)
    {
        return owner_ ? end(sluice_reader_release(owner_.get(), &c_, stream)) : result<>(detail::ended);
    }

  private:
    sluice_stream stream_ = SLUICE_ON_CPU;
};

/* A frame between begin and commit. If it was not committed it is cancelled with the object: name streams that write to
 * it by used_on, so that the slot is given back behind their work. */
class writer_frame : public detail::lent<sluice_writer>
{
  public:
    using detail::lent<sluice_writer>::lent;
    writer_frame(writer_frame &&other) noexcept { swap(other); }
    writer_frame &operator=(writer_frame &&other) noexcept
    {
        swap(other);
        return *this;
    }
    ~writer_frame()
    {
        if (owner_)
            sluice_writer_cancel(owner_.get(), &c_, SLUICE_ON_CPU);
    }
    /* As frame::as, to be written. */
    template <class T> result<span<T>> as(const char *name = nullptr) const { return elements<T>(name); }
    /* Takes the time of capture and the metadata of a frame that was read. */
    result<> inherit(const frame &from)
    {
        return owner_ ? result<>(sluice_frame_inherit(&c_, &from.c())) : result<>(detail::ended);
    }
    result<> commit(sluice_stream stream = SLUICE_ON_CPU)
    {
        return owner_ ? end(sluice_writer_commit(owner_.get(), &c_, stream)) : result<>(detail::ended);
    }
    result<> cancel(sluice_stream stream = SLUICE_ON_CPU)
    {
        return owner_ ? end(sluice_writer_cancel(owner_.get(), &c_, stream)) : result<>(detail::ended);
    }
};

/* ---- readers and writers ---- */

/* It closes when the object and all its frames have ended. */
class reader
{
  public:
    reader() noexcept = default;
    static result<reader> open(const sluice_reader_params &params)
    {
        sluice_reader *c = nullptr;
        if (int code = sluice_reader_open(&c, &params))
            return failure{ code };
        reader opened;
        opened.c_.reset(c, [](sluice_reader *each) { sluice_reader_close(&each); });
        return opened;
    }
    static result<reader> open(const char *name, int64_t open_timeout_ns = 0)
    {
        sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
        params.name = name;
        params.open_timeout_ns = open_timeout_ns;
        return open(params);
    }
    explicit operator bool() const noexcept { return c_ != nullptr; }
    result<frame> acquire(int64_t timeout_ns = SLUICE_DEFAULT, sluice_stream stream = SLUICE_ON_CPU)
    {
        sluice_frame taken{};
        if (int code = sluice_reader_acquire(c_.get(), stream, timeout_ns, &taken))
            return failure{ code };
        return frame(c_, taken, stream);
    }
    /* Readable when acquire would not wait; less than 0: a result. */
    int fd() const { return sluice_reader_fd(c_.get()); }
    result<> stop() { return sluice_reader_stop(c_.get()); }
    result<struct sluice_reader_stats> stats() const
    {
        struct sluice_reader_stats stats {
        };
        stats.size = static_cast<uint32_t>(sizeof stats);
        int code = sluice_reader_stats(c_.get(), &stats);
        return code ? result<struct sluice_reader_stats>(failure{ code }) : result<struct sluice_reader_stats>(stats);
    }
    /* For the calls of C. */
    sluice_reader *get() const noexcept { return c_.get(); }

  private:
    std::shared_ptr<sluice_reader> c_;
};

/* It closes when the object and all its frames have ended. */
class writer
{
  public:
    writer() noexcept = default;
    static result<writer> open(const sluice_writer_params &params)
    {
        sluice_writer *c = nullptr;
        if (int code = sluice_writer_open(&c, &params))
            return failure{ code };
        writer opened;
        opened.c_.reset(c, [](sluice_writer *each) { sluice_writer_close(&each); });
        return opened;
    }
    static result<writer> open(const char *name, const format &format)
    {
        sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
        params.name = name;
        params.format = &format.c();
        return open(params);
    }
    explicit operator bool() const noexcept { return c_ != nullptr; }
    result<writer_frame> begin(int64_t timeout_ns = SLUICE_DEFAULT)
    {
        sluice_frame begun{};
        if (int code = sluice_writer_begin(c_.get(), timeout_ns, &begun))
            return failure{ code };
        return writer_frame(c_, begun);
    }
    result<> wait_readers(uint32_t count, int64_t timeout_ns = SLUICE_FOREVER)
    {
        return sluice_writer_wait_readers(c_.get(), count, timeout_ns);
    }
    /* Begins a frame, copies one array, commits. */
    result<> send(const sluice_array &array, sluice_stream stream = SLUICE_ON_CPU, sluice_ticket *ticket = nullptr)
    {
        return sluice_writer_send(c_.get(), &array, 1, stream, ticket);
    }
    result<> reformat(const format &format) { return sluice_writer_reformat(c_.get(), &format.c()); }
    result<struct sluice_writer_stats> stats() const
    {
        struct sluice_writer_stats stats {
        };
        stats.size = static_cast<uint32_t>(sizeof stats);
        int code = sluice_writer_stats(c_.get(), &stats);
        return code ? result<struct sluice_writer_stats>(failure{ code }) : result<struct sluice_writer_stats>(stats);
    }
    /* For the calls of C. */
    sluice_writer *get() const noexcept { return c_.get(); }

  private:
    std::shared_ptr<sluice_writer> c_;
};

} // namespace sluice

#endif
