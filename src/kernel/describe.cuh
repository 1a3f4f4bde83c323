

/* SPDX-License-Identifier: MIT
 *
 * Is compiled after each source and says what the parameters of its kernels are: SL_DESCRIBE(number, kernel) makes
 * initialised data, which description.c finds in the compiled code. It is C++11, includes no header, and uses no name
 * that a macro of the source could replace, but these: */
#undef x
#undef y
#undef z
#undef w
#if __cplusplus < 201103L
#error kernels are described in C++11: choose a --std of c++11 or later
#endif

namespace sl_describe {

/* As in description.c. */
struct sl_parameter {
    unsigned sl_kind, sl_constant, sl_bytes, sl_dtype, sl_element;
};

template <bool sl_C, typename sl_T = void> struct sl_if {};
template <typename sl_T> struct sl_if<true, sl_T> {
    typedef sl_T sl_type;
};
template <typename sl_A, typename sl_B> struct sl_same {
    static constexpr bool sl_value = false;
};
template <typename sl_T> struct sl_same<sl_T, sl_T> {
    static constexpr bool sl_value = true;
};
template <typename sl_T> struct sl_bare {
    typedef sl_T sl_type;
    static constexpr unsigned sl_constant = 0;
};
template <typename sl_T> struct sl_bare<const sl_T> {
    typedef sl_T sl_type;
    static constexpr unsigned sl_constant = 1;
};
template <typename sl_T> struct sl_bare<volatile sl_T> : sl_bare<sl_T> {};
template <typename sl_T> struct sl_bare<const volatile sl_T> : sl_bare<const sl_T> {};
template <typename sl_T> __device__ sl_T &sl_any();

/* ---- numbers: their code, bits << 8 and lanes << 16 ---- */

template <typename sl_T, bool = __is_enum(sl_T)> struct sl_scalar {
    static constexpr unsigned sl_value = 0; /* it is none */
};
template <typename sl_T> struct sl_scalar<sl_T, true> : sl_scalar<__underlying_type(sl_T)> {};
#define SL_SCALAR(sl_T, sl_code) \
    template <> struct sl_scalar<sl_T, false> { \
        static constexpr unsigned sl_value = sl_code | sizeof(sl_T) * 8 << 8 | 1 << 16; \
    };
SL_SCALAR(bool, 6)
SL_SCALAR(char, (char(-1) < char(1) ? 0 : 1))
SL_SCALAR(signed char, 0)
SL_SCALAR(unsigned char, 1)
SL_SCALAR(wchar_t, (wchar_t(-1) < wchar_t(1) ? 0 : 1))
SL_SCALAR(char16_t, 1)
SL_SCALAR(char32_t, 1)
SL_SCALAR(short, 0)
SL_SCALAR(unsigned short, 1)
SL_SCALAR(int, 0)
SL_SCALAR(unsigned int, 1)
SL_SCALAR(long, 0)
SL_SCALAR(unsigned long, 1)
SL_SCALAR(long long, 0)
SL_SCALAR(unsigned long long, 1)
SL_SCALAR(float, 2)
SL_SCALAR(double, 2)

/* What only a pointer may point to. */
template <typename sl_T> struct sl_small : sl_scalar<sl_T> {};
#define SL_SMALL(sl_T, sl_code, sl_bits) \
    template <> struct sl_small<sl_T> { \
        static constexpr unsigned sl_value = sl_code | sl_bits << 8 | 1 << 16; \
    };
#ifdef __CUDA_FP16_TYPES_EXIST__
SL_SMALL(__half, 2, 16)
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
SL_SMALL(__nv_bfloat16, 4, 16)
#endif
#ifdef __CUDA_FP8_TYPES_EXIST__
SL_SMALL(__nv_fp8_e4m3, 10, 8)
SL_SMALL(__nv_fp8_e5m2, 12, 8)
#endif

/* A vector is a struct of x, y, z and w, as many as there are, of one type: float4, and a program's own. */
#define SL_MEMBER(sl_m, sl_name) \
    template <typename sl_T, typename sl_M, typename = void> struct sl_name { \
        static constexpr bool sl_value = false; \
    }; \
    template <typename sl_T, typename sl_M> \
    struct sl_name<sl_T, sl_M, typename sl_if<sl_same<decltype(sl_any<sl_T>().sl_m), sl_M>::sl_value>::sl_type> { \
        static constexpr bool sl_value = true; \
    };
SL_MEMBER(y, sl_has_y)
SL_MEMBER(z, sl_has_z)
SL_MEMBER(w, sl_has_w)

template <typename sl_T, typename = void> struct sl_elements : sl_small<sl_T> {};
template <typename sl_T>
struct sl_elements<sl_T, typename sl_if<sizeof(decltype(sl_any<sl_T>().x)) != 0>::sl_type> {
    typedef decltype(sl_any<sl_T>().x) sl_M;
    static constexpr unsigned sl_named = !sl_has_y<sl_T, sl_M>::sl_value   ? 1
                                         : !sl_has_z<sl_T, sl_M>::sl_value ? 2
                                         : !sl_has_w<sl_T, sl_M>::sl_value ? 3
                                                                           : 4;
    static constexpr unsigned sl_value =
        sl_small<sl_M>::sl_value && sizeof(sl_T) == sl_named * sizeof(sl_M)
            ? (sl_small<sl_M>::sl_value & 0xffff) | sl_named << 16
            : sl_small<sl_T>::sl_value;
};
template <typename sl_T, decltype(sizeof 0) sl_N> struct sl_elements<sl_T[sl_N], void> {
    static constexpr unsigned sl_one = sl_elements<typename sl_bare<sl_T>::sl_type>::sl_value;
    static constexpr unsigned sl_value = sl_N * (sl_one >> 16) < 65536 ? (sl_one & 0xffff) | sl_N * (sl_one >> 16) << 16 : 0;
};

/* 0: of void, of a function, and of a type that is only declared. */
template <typename sl_T, typename = void> struct sl_size {
    static constexpr unsigned sl_value = 0;
};
template <typename sl_T>
struct sl_size<sl_T, typename sl_if<!sl_same<sl_T, void>::sl_value && sizeof(sl_T) != 0>::sl_type> {
    static constexpr unsigned sl_value = sizeof(sl_T);
};

/* ---- parameters: enum sluice_parameter_kind ---- */

template <typename sl_T, typename = void> struct sl_of {
    static constexpr unsigned sl_dtype = sl_scalar<sl_T>::sl_value;
    static constexpr sl_parameter sl_value = { sl_dtype ? 1u : 3u, 0, sizeof(sl_T), sl_dtype, 0 };
};
template <typename sl_T> struct sl_of<sl_T, typename sl_if<sl_T::sluice_picture == 4>::sl_type> {
    static constexpr sl_parameter sl_value = { 4, 1, sizeof(sl_T), 0, 0 };
};
template <typename sl_T> struct sl_of<sl_T, typename sl_if<sl_T::sluice_picture == 5>::sl_type> {
    static constexpr sl_parameter sl_value = { 5, 0, sizeof(sl_T), 0, 0 };
};
template <typename sl_T> struct sl_of<sl_T *, void> {
    typedef sl_bare<sl_T> sl_to;
    static constexpr sl_parameter sl_value = { 2, sl_to::sl_constant, sizeof(sl_T *),
                                               sl_elements<typename sl_to::sl_type>::sl_value,
                                               sl_size<typename sl_to::sl_type>::sl_value };
};
template <typename sl_R, typename... sl_A> struct sl_of<sl_R (*)(sl_A...), void> {
    static constexpr sl_parameter sl_value = { 2, 1, sizeof(void *), 0, 0 };
};
template <typename sl_T> struct sl_of<sl_T &, void> {
    static_assert(sizeof(sl_T *) == 0, "a parameter of a kernel is a reference: make it a pointer or a value");
    static constexpr sl_parameter sl_value = {};
};
template <typename sl_T> struct sl_of<sl_T &&, void> : sl_of<sl_T &, void> {};

template <typename... sl_A> struct sl_description {
    unsigned sl_mark[4], sl_number, sl_count;
    sl_parameter sl_parameters[sizeof...(sl_A) ? sizeof...(sl_A) : 1];
    __device__ constexpr explicit sl_description(unsigned sl_n)
        : sl_mark{ 0x536c7569, 0x63654b65, 0x9e3779b9, 0x7f4a7c15 }, sl_number(sl_n), sl_count(sizeof...(sl_A)),
          sl_parameters{ sl_of<sl_A>::sl_value... }
    {
    }
};
template <typename... sl_A> __device__ sl_description<sl_A...> sl_type(void (*)(sl_A...));

}

#define SL_DESCRIBE(sl_number, ...) \
    extern "C" { \
    __device__ __attribute__((used)) decltype(sl_describe::sl_type(&__VA_ARGS__)) sl_description_##sl_number(sl_number); \
    }
#line 1 "<kernels>"
