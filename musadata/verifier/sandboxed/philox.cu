// Philox4x32 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011) of ten rounds or of four, and the
// values that `device_inputs.py` makes of it: the same bits as its PyTorch version, on any device.

typedef unsigned int word;
typedef unsigned long long wide;

#define WORDS 0
#define UNIFORM 1
#define NORMAL 2

template <int ROUNDS>
__device__ __forceinline__ void philox(wide block, word key0, word key1, word out[4]) {
    word c0 = (word)block, c1 = (word)(block >> 32), c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        wide left = (wide)0xD2511F53u * c0, right = (wide)0xCD9E8D57u * c2;
        c0 = (word)(right >> 32) ^ c1 ^ key0;
        c2 = (word)(left >> 32) ^ c3 ^ key1;
        c1 = (word)right;
        c3 = (word)left;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

__device__ __forceinline__ float uniform(word bits, float low, float span, float high) {
    float value = __fadd_rn(__fmul_rn((float)(bits >> 8) * 5.9604644775390625e-08f, span), low);
    return value >= high ? low : value;
}

__device__ __forceinline__ float normal(word a, word b, float scale) {
    int sum = (int)((a >> 16) + (a & 0xFFFFu) + (b >> 16) + (b & 0xFFFFu));
    int fine = (int)((a * 0x9E3779B1u + b * 0x85EBCA77u) >> 18);
    return __fmul_rn(__int2float_rn((sum - 131070) * 16384 + fine - 8192), scale);
}

// `out` holds `count` words or floats, the first of which comes from `block`. For normal values `span` is their scale.
template <int ROUNDS, int KIND>
__device__ __forceinline__ void fill(
    word *out, wide count, wide block, word key0, word key1, float low, float span, float high) {
    constexpr int VALUES = KIND == NORMAL ? 2 : 4;
    wide threads = (wide)gridDim.x * blockDim.x;
    bool whole = (wide)out % (VALUES * sizeof(word)) == 0;
    for (wide at = (wide)blockIdx.x * blockDim.x + threadIdx.x; at * VALUES < count; at += threads) {
        word bits[4], made[4];
        philox<ROUNDS>(block + at, key0, key1, bits);
        for (int i = 0; i < VALUES; ++i) {
            made[i] = KIND == WORDS ? bits[i]
                : __float_as_uint(KIND == UNIFORM ? uniform(bits[i], low, span, high)
                                                  : normal(bits[2 * i % 4], bits[(2 * i + 1) % 4], span));
        }
        if (!whole || at * VALUES + VALUES > count) {
            for (int i = 0; i < VALUES && at * VALUES + i < count; ++i) out[at * VALUES + i] = made[i];
        } else if (VALUES == 4) {
            ((uint4 *)out)[at] = make_uint4(made[0], made[1], made[2], made[3]);
        } else {
            ((uint2 *)out)[at] = make_uint2(made[0], made[1]);
        }
    }
}

template <int ROUNDS>
__device__ __forceinline__ void fill_kind(
    word *out, wide count, wide block, word key0, word key1, int kind, float low, float span, float high) {
    if (kind == WORDS) fill<ROUNDS, WORDS>(out, count, block, key0, key1, low, span, high);
    if (kind == UNIFORM) fill<ROUNDS, UNIFORM>(out, count, block, key0, key1, low, span, high);
    if (kind == NORMAL) fill<ROUNDS, NORMAL>(out, count, block, key0, key1, low, span, high);
}

extern "C" __global__ void draw(
    word *out, wide count, wide block, word key0, word key1, int kind, float low, float span, float high, int rounds) {
    if (rounds == 10) fill_kind<10>(out, count, block, key0, key1, kind, low, span, high);
    if (rounds == 4) fill_kind<4>(out, count, block, key0, key1, kind, low, span, high);
}
