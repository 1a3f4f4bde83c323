// SPDX-License-Identifier: MIT
//
// Conversions on a GPU: each pixel by itself. The kernels with a source in their name are faster for that one.
//
// dev/convert-ptx compiles all kernels to convert.ptx, which is part of the library: nothing is compiled where it runs.

/* ---- one pixel of the target ---- */

__device__ __forceinline__ sl_taps taps_of(const sl_axis &axis, int pixel, int resize)
{
    if (resize == SL_TRIANGLE)
        return sl_taps_at(&axis, pixel);
    sl_taps one = { sl_nearest(&axis, pixel), 1, 0 };
    return one;
}

template <typename Source> __device__ __forceinline__ sl_rgba convert(const sl_job &job, int x, int y)
{
    const Source source(job);
    sl_rgba sum = {};
    float weights = 0;
    if (!sl_shows(&job.x, x) || !sl_shows(&job.y, y))
        return job.border;
    const sl_taps columns = taps_of(job.x, x, job.resize), rows = taps_of(job.y, y, job.resize);
#pragma unroll 1
    for (int j = 0; j < rows.count; j++) {
        const int row = sl_source(&job.y, rows.first + j);
        const float down = sl_weight(&job.y, rows, j);
#pragma unroll 1
        for (int i = 0; i < columns.count; i++) {
            const float weight = down * sl_weight(&job.x, columns, i);
            const sl_rgba c = source.fetch(sl_source(&job.x, columns.first + i), row);
            add(sum, weight, source.cover(c), c);
            weights += weight;
        }
    }
    return finished(job, source, times(1 / weights, sum));
}

// A thread for each pixel.
template <typename Source> __device__ __forceinline__ void each(const sl_job &job)
{
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (x < job.to.width && y < job.to.height)
        sl_store(&job.to, x, y, convert<Source>(job, x, y));
}
extern "C" __global__ void sl_convert_any(sl_job job)
{
    each<any_source>(job);
}
extern "C" __global__ void sl_convert_rgba(sl_job job)
{
    each<rgba_source>(job);
}

/* ---- targets whose pixels share chroma ---- */

// A block of 32 x 8 threads makes 32 x 8 samples of chroma, from the pixels that share them and those around.
enum { LEFT = 1, ACROSS = 2 * WIDE + 3, DOWN = 2 * HIGH + 3 };

__device__ __forceinline__ float shared_weight(int site, int together, int i)
{
    const bool middle = i == 1 || i == 2;
    if (site == SL_SITE_REPEAT)
        return middle ? 0.5f : 0;
    if (together)
        return i == 3 ? 0 : i == 1 ? 0.5f : 0.25f;
    return middle ? 0.375f : 0.125f;
}

template <typename Source> __device__ __forceinline__ void share(const sl_job &job)
{
    __shared__ float u[DOWN][ACROSS + 1], v[DOWN][ACROSS + 1];
    const sl_pixels &to = job.to;
    const int high = HIGH << to.shift_y, above = to.shift_y ? LEFT : 0, down = high + 3 * to.shift_y;
    const int left = static_cast<int>(blockIdx.x) * 2 * WIDE, top = static_cast<int>(blockIdx.y) * high;
    for (int i = static_cast<int>(threadIdx.y * WIDE + threadIdx.x); i < down * ACROSS; i += WIDE * HIGH) {
        const int column = i % ACROSS, row = i / ACROSS, x = left + column - LEFT, y = top + row - above;
        const int cx = x < 0 ? 0 : x < to.width ? x : to.width - 1, cy = y < 0 ? 0 : y < to.height ? y : to.height - 1;
        if (cx - x > 2 || x - cx > 2 || y - cy > 2)
            continue;
        const sl_rgba c = convert<Source>(job, cx, cy);
        u[row][column] = sl_chroma_u(&to, c);
        v[row][column] = sl_chroma_v(&to, c);
        if (cx == x && cy == y && x >= left && x < left + 2 * WIDE && y >= top && y < top + high)
            sl_store_own(&to, x, y, c);
    }
    __syncthreads();
    const int column = 2 * static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y) << to.shift_y;
    if (left + column >= to.width || top + row >= to.height)
        return;
    float sum_u = 0, sum_v = 0;
#pragma unroll 1
    for (int j = 0; j < (to.shift_y ? 4 : 1); j++) {
        const float weight = to.shift_y ? shared_weight(to.site, to.site == SL_SITE_TOP_LEFT, j) : 1;
#pragma unroll 1
        for (int i = 0; i < 4; i++) {
            const float w = weight * shared_weight(to.site, to.site != SL_SITE_CENTRE, i);
            if (w > 0) {
                sum_u += w * u[row + j][column + i];
                sum_v += w * v[row + j][column + i];
            }
        }
    }
    sl_store_chroma(&to, left + column, top + row, sum_u, sum_v);
}
extern "C" __global__ void sl_share_any(sl_job job)
{
    share<any_source>(job);
}
extern "C" __global__ void sl_share_rgba(sl_job job)
{
    share<rgba_source>(job);
}
