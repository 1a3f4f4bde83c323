/* SPDX-License-Identifier: MIT
 *
 * What a C++ compiler reads before a CUDA source, so that "host" can run it: the subset of CUDA C++ that
 * docs/kernels.md#on-the-cpu lists. A kernel is inlined into loops over the blocks and the threads of a launch. Where
 * the source has __syncthreads (SL_FIBERS) the threads of a block are coroutines instead, and all of a block runs on one
 * thread of the system.
 *
 * host_compile.c includes it ahead of the source and of its -D options, which may redefine any name that is used here,
 * and appends SL_RUN(number, kernel) for each kernel; host.c calls what that defines.
 */
#pragma GCC system_header
#define SL_HOST 1
/* Leaves out libstdc++'s header of C++17's special functions, std::beta and the like. CUDA has none of them, and to read
 * it took half the time that a kernel takes to compile. */
#define _GLIBCXX_BITS_SPECFUN_H 1
#include <math.h>
#include <stdint.h>

extern "C" int printf(const char *format, ...);

/* ---- qualifiers ---- */

#define __global__ inline __attribute__((always_inline))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__      thread_local /* a block runs on one thread, one at a time */
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ /* libstdc++ has it in its attributes */
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n)    __attribute__((aligned(n)))
#define __restrict__    __restrict
#define __syncthreads   sl_barrier

/* ---- vectors ---- */

#define SL_VECTOR(T, name, align2, align4) \
    struct name##1 { \
        T x; \
    }; \
    struct __attribute__((aligned(align2))) name##2 { \
        T x, y; \
    }; \
    struct name##3 { \
        T x, y, z; \
    }; \
    struct __attribute__((aligned(align4))) name##4 { \
        T x, y, z, w; \
    }; \
    static inline name##1 make_##name##1(T x) \
    { \
        return { x }; \
    } \
    static inline name##2 make_##name##2(T x, T y) \
    { \
        return { x, y }; \
    } \
    static inline name##3 make_##name##3(T x, T y, T z) \
    { \
        return { x, y, z }; \
    } \
    static inline name##4 make_##name##4(T x, T y, T z, T w) \
    { \
        return { x, y, z, w }; \
    }
SL_VECTOR(signed char, char, 2, 4)
SL_VECTOR(unsigned char, uchar, 2, 4)
SL_VECTOR(short, short, 4, 8)
SL_VECTOR(unsigned short, ushort, 4, 8)
SL_VECTOR(int, int, 8, 16)
SL_VECTOR(unsigned, uint, 8, 16)
SL_VECTOR(long, long, 2 * sizeof(long), 16)
SL_VECTOR(unsigned long, ulong, 2 * sizeof(long), 16)
SL_VECTOR(long long, longlong, 16, 16)
SL_VECTOR(unsigned long long, ulonglong, 16, 16)
SL_VECTOR(float, float, 8, 16)
SL_VECTOR(double, double, 16, 16)
#undef SL_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return { x, y, z }; }
};

/* ---- indices ---- */

static __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
static __thread void *sl_shared; /* dynamic shared memory of the block that runs */
static constexpr int warpSize = 32;

/* ---- numbers ---- */

/* As CUDA's: if one of two floating-point numbers is NaN, the result is the other one. The first step is one
 * instruction. */
template <typename A, typename B> constexpr auto min(A a, B b) -> decltype(a + b)
{
    decltype(a + b) x = a, y = b, less = y < x ? y : x;
    return x == x ? less : y;
}
template <typename A, typename B> constexpr auto max(A a, B b) -> decltype(a + b)
{
    decltype(a + b) x = a, y = b, more = y > x ? y : x;
    return x == x ? more : y;
}

#define SL_BITS(name, To, From) \
    static inline To name(From from) \
    { \
        To to; \
        static_assert(sizeof to == sizeof from, ""); \
        __builtin_memcpy(&to, &from, sizeof to); \
        return to; \
    }
SL_BITS(__float_as_int, int, float)
SL_BITS(__float_as_uint, unsigned, float)
SL_BITS(__int_as_float, float, int)
SL_BITS(__uint_as_float, float, unsigned)
SL_BITS(__double_as_longlong, long long, double)
SL_BITS(__longlong_as_double, double, long long)
#undef SL_BITS

#define SL_1(R, name, T, ...) static inline R name(T x) { return __VA_ARGS__; }
#define SL_2(R, name, T, ...) static inline R name(T x, T y) { return __VA_ARGS__; }
#define SL_3(R, name, T, ...) static inline R name(T x, T y, T z) { return __VA_ARGS__; }

SL_1(float, sl_rsqrtf, float, 1 / sqrtf(x))
SL_1(double, sl_rsqrt, double, 1 / sqrt(x))
SL_1(float, rcbrtf, float, 1 / cbrtf(x))
SL_1(double, rcbrt, double, 1 / cbrt(x))
SL_1(float, __saturatef, float, x >= 1 ? 1.0f : x > 0 ? x : 0.0f) /* of NaN: 0 */
SL_1(float, sl_exp10f, float, powf(10, x))
SL_1(double, sl_exp10, double, pow(10, x))
SL_1(float, __frcp_rn, float, 1 / x)
SL_1(float, __fsqrt_rn, float, sqrtf(x))
SL_1(float, __frsqrt_rn, float, 1 / sqrtf(x))
SL_2(float, __fdividef, float, x / y)
SL_2(float, fdividef, float, x / y)
SL_2(float, __fadd_rn, float, x + y)
SL_2(float, __fsub_rn, float, x - y)
SL_2(float, __fmul_rn, float, x *y)
SL_2(float, __fdiv_rn, float, x / y)
SL_3(float, __fmaf_rn, float, fmaf(x, y, z))
SL_3(float, norm3df, float, sqrtf(x *x + y * y + z * z))
SL_3(float, rnorm3df, float, 1 / sqrtf(x *x + y * y + z * z))

/* Of the half turn, which is exact for whole and half numbers. */
SL_1(double, sl_sinpi, double, (x = fmod(x, 2), x == (long long)x ? 0 * x : sin(x * 3.14159265358979323846)))
SL_1(double, sl_cospi, double, sl_sinpi(fabs(fmod(x, 2)) + 0.5))
SL_1(float, sl_sinpif, float, (float)sl_sinpi(x))
SL_1(float, sl_cospif, float, (float)sl_cospi(x))
static inline void sl_sincosf(float x, float *s, float *c)
{
    *s = sinf(x);
    *c = cosf(x);
}
static inline void sl_sincos(double x, double *s, double *c)
{
    *s = sin(x);
    *c = cos(x);
}

/* The C library has some of these names, too. */
#define __sinf    sinf
#define __cosf    cosf
#define __tanf    tanf
#define __expf    expf
#define __exp10f  sl_exp10f
#define __logf    logf
#define __log2f   log2f
#define __log10f  log10f
#define __powf    powf
#define exp10f    sl_exp10f
#define exp10     sl_exp10
#define sincosf   sl_sincosf
#define __sincosf sl_sincosf
#define sincos    sl_sincos
#define sinpi     sl_sinpi
#define sinpif    sl_sinpif
#define cospi     sl_cospi
#define cospif    sl_cospif
#define rsqrt     sl_rsqrt
#define rsqrtf    sl_rsqrtf

/* To integers: to the nearest (even) one, towards 0, up and down. A number that does not fit becomes the nearest that
 * does. */
#define SL_TO_INTEGER(name, T, least, most, F) \
    static inline T name##_rn(F x) { return sl_fit<T, F>(rint(x), least, most); } \
    static inline T name##_rz(F x) { return sl_fit<T, F>(trunc(x), least, most); } \
    static inline T name##_ru(F x) { return sl_fit<T, F>(ceil(x), least, most); } \
    static inline T name##_rd(F x) { return sl_fit<T, F>(floor(x), least, most); }
template <typename T, typename F> static inline T sl_fit(F x, T least, T most)
{
    return x != x ? 0 : x <= (F)least ? least : x >= (F)most ? most : (T)x;
}
SL_TO_INTEGER(__float2int, int, INT32_MIN, INT32_MAX, float)
SL_TO_INTEGER(__float2uint, unsigned, 0, UINT32_MAX, float)
SL_TO_INTEGER(__float2ll, long long, INT64_MIN, INT64_MAX, float)
SL_TO_INTEGER(__double2int, int, INT32_MIN, INT32_MAX, double)
SL_TO_INTEGER(__double2uint, unsigned, 0, UINT32_MAX, double)
SL_TO_INTEGER(__double2ll, long long, INT64_MIN, INT64_MAX, double)
SL_1(float, __int2float_rn, int, (float)x)
SL_1(float, __uint2float_rn, unsigned, (float)x)
SL_1(float, __ll2float_rn, long long, (float)x)
SL_1(double, __int2double_rn, int, x)
SL_1(double, __ll2double_rn, long long, (double)x)
SL_1(float, __double2float_rn, double, (float)x)

SL_1(int, __popc, unsigned, __builtin_popcount(x))
SL_1(int, __popcll, unsigned long long, __builtin_popcountll(x))
SL_1(int, __clz, int, x ? __builtin_clz((unsigned)x) : 32)
SL_1(int, __clzll, long long, x ? __builtin_clzll((unsigned long long)x) : 64)
SL_1(int, __ffs, int, __builtin_ffs(x))
SL_1(int, __ffsll, long long, __builtin_ffsll(x))
SL_2(int, __mul24, int, (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8)))
SL_2(unsigned, __umul24, unsigned, (x & 0xffffff) * (y & 0xffffff))
SL_2(int, __mulhi, int, (int)((long long)x * y >> 32))
SL_2(unsigned, __umulhi, unsigned, (unsigned)((unsigned long long)x * y >> 32))
SL_3(unsigned, __sad, int, (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x) + (unsigned)z)
SL_3(unsigned, __usad, unsigned, (x > y ? x - y : y - x) + z)
static inline unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
#undef SL_TO_INTEGER
#undef SL_1
#undef SL_2
#undef SL_3

/* ---- memory ---- */

template <typename T> static inline T __ldg(const T *at)
{
    return *at;
}
static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename T> struct sl_same {
    typedef T type; /* keeps an argument out of the deduction of T */
};

/* Each returns the old value. */
template <typename T, typename F> static inline T sl_atomic(T *at, F next)
{
    T old, wanted;

    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do {
        wanted = next(old);
    } while (!__atomic_compare_exchange(at, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
#define SL_ATOMIC(name, ...) \
    template <typename T> static inline T name(T *at, typename sl_same<T>::type value) \
    { \
        return __VA_ARGS__; \
    } \
    template <typename T> static inline T name##_block(T *at, typename sl_same<T>::type value) \
    { \
        return name(at, value); \
    } \
    template <typename T> static inline T name##_system(T *at, typename sl_same<T>::type value) \
    { \
        return name(at, value); \
    }
SL_ATOMIC(atomicMin, sl_atomic(at, [=](T old) { return value < old ? value : old; }))
SL_ATOMIC(atomicMax, sl_atomic(at, [=](T old) { return value > old ? value : old; }))
SL_ATOMIC(atomicInc, sl_atomic(at, [=](T old) { return old >= value ? T(0) : T(old + 1); }))
SL_ATOMIC(atomicDec, sl_atomic(at, [=](T old) { return old == 0 || old > value ? value : T(old - 1); }))
SL_ATOMIC(atomicAnd, __atomic_fetch_and(at, value, __ATOMIC_RELAXED))
SL_ATOMIC(atomicOr, __atomic_fetch_or(at, value, __ATOMIC_RELAXED))
SL_ATOMIC(atomicXor, __atomic_fetch_xor(at, value, __ATOMIC_RELAXED))
SL_ATOMIC(atomicAdd, __atomic_fetch_add(at, value, __ATOMIC_RELAXED))
SL_ATOMIC(atomicSub, __atomic_fetch_sub(at, value, __ATOMIC_RELAXED))
SL_ATOMIC(atomicExch, (__atomic_exchange(at, &value, &value, __ATOMIC_RELAXED), value))
#undef SL_ATOMIC
static inline float atomicAdd(float *at, float value)
{
    return sl_atomic(at, [=](float old) { return old + value; });
}
static inline double atomicAdd(double *at, double value)
{
    return sl_atomic(at, [=](double old) { return old + value; });
}
template <typename T>
static inline T atomicCAS(T *at, typename sl_same<T>::type compare, typename sl_same<T>::type value)
{
    __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}

/* ---- a launch ---- */

/* As in host_module.h. */
struct sl_host_job {
    uint32_t grid[3], block[3];
    void *const *values;
    void *shared;
    struct sl_fibers *fibers;
    uint64_t first, last; /* blocks */
    uint32_t check;
    uint32_t lines[2]; /* set by the check: two barriers at which threads of one block wait */
};

static inline void sl_begin(const sl_host_job *job)
{
    gridDim = { job->grid[0], job->grid[1], job->grid[2] };
    blockDim = { job->block[0], job->block[1], job->block[2] };
    sl_shared = job->shared;
}

static inline uint3 sl_block_at(const sl_host_job *job, uint64_t at)
{
    uint64_t row = at / job->grid[0];
    return { (unsigned)(at % job->grid[0]), (unsigned)(row % job->grid[1]), (unsigned)(row / job->grid[1]) };
}

/* A kernel's own type says how to read its arguments. */
template <typename T> struct sl_plain {
    typedef T type;
};
template <typename T> struct sl_plain<const T> {
    typedef T type;
};
template <unsigned... I> struct sl_indices {};
template <unsigned N, unsigned... I> struct sl_count : sl_count<N - 1, N - 1, I...> {};
template <unsigned... I> struct sl_count<0, I...> {
    typedef sl_indices<I...> type;
};

#ifdef SL_FIBERS
#include <ucontext.h>

enum { SL_MOST_FIBERS = 1024, SL_STACK = 128 << 10 };

/* Switching without a call into the C library, whose longjmp is made for one stack. */
typedef void *sl_place[5];

struct sl_fiber {
    sl_place place;
    uint3 index;
    uint32_t line;   /* of the barrier where it waits */
    sl_fiber *next, *before; /* in the ring of those that have not returned */
};

/* Zeroed at first, then kept by host.c from one range of blocks to the next. */
struct sl_fibers {
    sl_fiber fibers[SL_MOST_FIBERS];
    sl_place caller;
    void (*body)(const sl_host_job *job); /* runs one thread of the kernel */
    sl_host_job *job;
    uint32_t made;
    sl_fiber *running;
    unsigned char stacks[SL_MOST_FIBERS][SL_STACK] __attribute__((aligned(4096)));
};

static __thread sl_fibers *sl_mine;
extern "C" __attribute__((visibility("default"))) const uint64_t sl_fibers_bytes;
const uint64_t sl_fibers_bytes = sizeof(sl_fibers);

/* gcc wants the two in different functions. Values in registers are lost, so each function has a frame of its own. */
static __attribute__((noinline, noreturn)) void sl_jump(sl_place &to)
{
    __builtin_longjmp(to, 1);
}
static __attribute__((noinline)) void sl_switch(sl_place &from, sl_place &to)
{
    if (__builtin_setjmp(from) == 0)
        sl_jump(to);
}

static inline void sl_resume(sl_fibers *set, sl_fiber *from, sl_fiber *to)
{
    set->running = to;
    sl_switch(from->place, to->place);
}

/* A barrier is one round of the ring: a thread goes on once all others have run up to theirs. */
static __attribute__((noinline)) void sl_wait(uint32_t line)
{
    sl_fibers *set = sl_mine;
    sl_fiber *self = set->running;

    self->line = line;
    if (set->job->check && self->before < self && self->before->line != line) {
        set->job->lines[0] = self->before->line;
        set->job->lines[1] = line;
    }
    if (self->next == self)
        return;
    sl_resume(set, self, self->next);
    threadIdx = self->index;
}

static inline void sl_barrier(uint32_t line = __builtin_LINE())
{
    sl_wait(line);
}

/* Leaves the ring for good; the last one gives the block back. */
static void sl_leave(sl_fibers *set, sl_fiber *self)
{
    if (self->next == self) {
        sl_switch(self->place, set->caller);
        return;
    }
    self->before->next = self->next;
    self->next->before = self->before;
    sl_resume(set, self, self->next);
}

/* One coroutine, which runs a thread of each block. It knows no address of a thread_local variable, as the next block may
 * run on another thread. */
static void sl_fiber_loop(unsigned low, unsigned high, unsigned number)
{
    sl_fibers *set = (sl_fibers *)(uintptr_t)((uint64_t)high << 32 | low);
    sl_fiber *self = &set->fibers[number];

    sl_switch(self->place, set->caller);
    for (;;) {
        set->body(set->job);
        sl_leave(set, self);
    }
}

static __attribute__((noinline)) void sl_start(sl_place &from, const ucontext_t *context)
{
    if (__builtin_setjmp(from) == 0)
        setcontext(context);
}

static void sl_make_fiber(sl_fibers *set, uint32_t number)
{
    ucontext_t context;

    getcontext(&context);
    context.uc_stack.ss_sp = set->stacks[number];
    context.uc_stack.ss_size = SL_STACK - number % 61 * 256; /* spreads them over the sets of the caches */
    context.uc_link = nullptr;
    makecontext(&context, (void (*)())sl_fiber_loop, 3, (unsigned)(uintptr_t)set,
                (unsigned)((uint64_t)(uintptr_t)set >> 32), number);
    sl_start(set->caller, &context);
}

static inline void sl_run_block(sl_fibers *set, uint32_t count)
{
    const sl_host_job *job = set->job;
    uint3 at = { 0, 0, 0 };

    for (uint32_t i = 0; i < count; i++) {
        sl_fiber *fiber = &set->fibers[i];
        fiber->index = at;
        fiber->line = 0;
        fiber->next = &set->fibers[i + 1 < count ? i + 1 : 0];
        fiber->before = &set->fibers[i ? i - 1 : count - 1];
        if (++at.x == job->block[0]) {
            at.x = 0;
            if (++at.y == job->block[1]) {
                at.y = 0;
                at.z++;
            }
        }
    }
    set->running = &set->fibers[0];
    sl_switch(set->caller, set->fibers[0].place);
}

template <auto F> struct sl_kernel;
template <typename... A, void (*F)(A...)> struct sl_kernel<F> {
    template <unsigned... I> static inline void call(const sl_host_job *job, sl_indices<I...>)
    {
        F(*static_cast<typename sl_plain<A>::type *>(job->values[I])...);
    }
    static __attribute__((noinline)) void body(const sl_host_job *job)
    {
        threadIdx = sl_mine->running->index;
        call(job, typename sl_count<sizeof...(A)>::type());
    }
    static void run(sl_host_job *job)
    {
        sl_fibers *set = job->fibers;
        uint32_t count = job->block[0] * job->block[1] * job->block[2];

        sl_begin(job);
        sl_mine = set;
        set->job = job;
        set->body = body;
        for (; set->made < count; set->made++)
            sl_make_fiber(set, set->made);
        for (uint64_t at = job->first; at < job->last; at++) {
            blockIdx = sl_block_at(job, at);
            sl_run_block(set, count);
        }
    }
};
#else
template <auto F> struct sl_kernel;
template <typename... A, void (*F)(A...)> struct sl_kernel<F> {
    template <unsigned... I> static inline void blocks(const sl_host_job *job, sl_indices<I...>)
    {
        loops(job, *static_cast<typename sl_plain<A>::type *>(job->values[I])...);
    }
    static inline void loops(const sl_host_job *job, A... arguments)
    {
        const uint32_t width = job->block[0], height = job->block[1], depth = job->block[2];

        for (uint64_t at = job->first; at < job->last; at++) {
            blockIdx = sl_block_at(job, at);
            for (uint32_t z = 0; z < depth; z++)
                for (uint32_t y = 0; y < height; y++)
                    for (uint32_t x = 0; x < width; x++) {
                        threadIdx = { x, y, z };
                        F(arguments...);
                    }
        }
    }
    static void run(sl_host_job *job)
    {
        sl_begin(job);
        blocks(job, typename sl_count<sizeof...(A)>::type());
    }
};
#endif

#define SL_RUN(number, ...) \
    extern "C" __attribute__((visibility("default"))) void sl_run_##number(sl_host_job *sl_job) \
    { \
        sl_kernel<__VA_ARGS__>::run(sl_job); \
    }
