/* SPDX-License-Identifier: MIT
 *
 * All accesses to words that other processes (or a GPU) read and write go through here. docs/memory-order.md says
 * for each shared word who stores it, who loads it, and why with this memory order.
 *
 * With SL_MODEL the same names call the scheduler of tests/model, which explores every interleaving.
 */
#ifndef SL_UTIL_ATOMIC_H
#define SL_UTIL_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t sl_word;   /* a shared 64-bit word */
typedef _Atomic uint32_t sl_word32; /* a shared 32-bit word (futexes) */

#ifdef SL_MODEL

uint64_t sl_model_load(const void *word, int bytes, int order);
void sl_model_store(void *word, int bytes, uint64_t value, int order);
uint64_t sl_model_add(void *word, int bytes, uint64_t value);
uint64_t sl_model_exchange(void *word, int bytes, uint64_t value);

#define SL_MODEL_ORDER(x)     memory_order_##x
#define sl_load(p, order)     ((uint64_t)sl_model_load((p), sizeof(*(p)), SL_MODEL_ORDER(order)))
#define sl_store(p, v, order) sl_model_store((p), sizeof(*(p)), (v), SL_MODEL_ORDER(order))
#define sl_add(p, v)          sl_model_add((p), sizeof(*(p)), (v))
#define sl_exchange(p, v)     sl_model_exchange((p), sizeof(*(p)), (v))

#else

/* order: relaxed, acquire, release, seq_cst */
#define sl_load(p, order)     atomic_load_explicit((p), memory_order_##order)
#define sl_store(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define sl_add(p, v)          atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define sl_exchange(p, v)     atomic_exchange_explicit((p), (v), memory_order_seq_cst)

#endif

/* 64 bits at any address within one cache line, as placed by wires of other projects: one atomic access where the CPU
 * supports it (x86), else byte by byte, so that some bytes may be older. The load is an acquire, the store a release.
 */
static inline uint64_t sl_load_wide(const void *at)
{
    uint64_t value = 0;
#if defined(__x86_64__)
    __asm__ volatile("movq %1, %0" : "=r"(value) : "m"(*(const unsigned char(*)[8])at) : "memory");
#else
    const _Atomic unsigned char *bytes = (const _Atomic unsigned char *)at;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)atomic_load_explicit(&bytes[i], memory_order_acquire) << 8 * i;
#endif
    return value;
}

static inline void sl_store_wide(void *at, uint64_t value)
{
#if defined(__x86_64__)
    __asm__ volatile("movq %1, %0" : "=m"(*(unsigned char(*)[8])at) : "r"(value) : "memory");
#else
    _Atomic unsigned char *bytes = (_Atomic unsigned char *)at;
    for (int i = 0; i < 8; i++)
        atomic_store_explicit(&bytes[i], (unsigned char)(value >> 8 * i), memory_order_release);
#endif
}

/* Orders reads of plain memory before it with loads after it. (Not an atomic_thread_fence, which ThreadSanitizer does
 * not support.) */
static inline void sl_after_reads(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ishld" ::: "memory");
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* Prefetches the cache line of a word for writing, so that a later store with a fence, or before one, need not wait
 * until other CPUs have given up the line. (The compiler's builtin prefetches for reading unless told that the CPU has
 * prefetchw; all 64-bit x86 CPUs have it, or treat it as a no-op.) */
static inline void sl_fetch_to_store(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Tells the CPU that this is a spin loop. */
static inline void sl_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
