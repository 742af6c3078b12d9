// For which types CUDA's overloaded functions exist; compiled by the tests of both backends.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

struct Pair {
  float value;
  int index;
};

template <class T, class... Types>
constexpr bool among = (std::is_same_v<T, Types> || ...);

#define CHECK_ATOMIC(name, ...)                                   \
  template <class T>                                              \
  concept has_##name = requires(T* p, T v) { name(p, v); };       \
  template <class... T>                                           \
  constexpr bool name##_agrees = ((has_##name<T> == among<T, __VA_ARGS__>) && ...); \
  static_assert(name##_agrees<bool, char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, \
                              long long, unsigned long long, float, double, Pair>);

CHECK_ATOMIC(atomicAdd, int, unsigned, unsigned long long, float, double)
CHECK_ATOMIC(atomicSub, int, unsigned)
CHECK_ATOMIC(atomicExch, int, unsigned, unsigned long long, float)
CHECK_ATOMIC(atomicMax, int, unsigned, long long, unsigned long long)
CHECK_ATOMIC(atomicMin, int, unsigned, long long, unsigned long long)
CHECK_ATOMIC(atomicAnd, int, unsigned, long long, unsigned long long)
CHECK_ATOMIC(atomicOr, int, unsigned, long long, unsigned long long)
CHECK_ATOMIC(atomicXor, int, unsigned, long long, unsigned long long)
CHECK_ATOMIC(atomicInc, unsigned)
CHECK_ATOMIC(atomicDec, unsigned)
CHECK_ATOMIC(atomicAdd_block, int, unsigned, unsigned long long, float, double)
CHECK_ATOMIC(atomicMax_system, int, unsigned, long long, unsigned long long)

template <class T>
concept Swaps = requires(T* p, T v) { atomicCAS(p, v, v); };
static_assert(Swaps<int> && Swaps<unsigned> && Swaps<unsigned long long> && Swaps<unsigned short>);
static_assert(!Swaps<float> && !Swaps<long long> && !Swaps<bool> && !Swaps<double>);
static_assert(has_atomicAdd<__half> && has_atomicAdd<__half2> && has_atomicAdd<__nv_bfloat16>);
static_assert(has_atomicAdd<float2> && has_atomicAdd<float4> && !has_atomicAdd<double2> && !has_atomicAdd<int2>);
static_assert(!has_atomicAdd<const float> && !has_atomicAdd<volatile float>);

template <class T>
concept Shuffles = requires(T v) {
  __shfl_sync(~0u, v, 0);
  __shfl_down_sync(~0u, v, 1);
  __shfl_up_sync(~0u, v, 1u, 8);
  __shfl_xor_sync(~0u, v, 1);
};
static_assert(Shuffles<bool> && Shuffles<char> && Shuffles<short> && Shuffles<int> && Shuffles<int64_t>);
static_assert(Shuffles<uint8_t> && Shuffles<uint64_t> && Shuffles<long long> && Shuffles<float> && Shuffles<double>);
static_assert(Shuffles<__half> && Shuffles<__half2> && Shuffles<__nv_bfloat16> && Shuffles<__nv_bfloat162>);
static_assert(!Shuffles<float2> && !Shuffles<float4> && !Shuffles<Pair> && !Shuffles<float*>);
static_assert(std::is_same_v<decltype(__shfl_sync(~0u, short{}, 0)), int>);

template <class T>
concept Matches = requires(T v) { __match_any_sync(~0u, v); };
static_assert(Matches<int> && Matches<float> && Matches<double> && Matches<int64_t> && Matches<bool>);
static_assert(!Matches<__half> && !Matches<float2> && !Matches<float*>);

template <class T>
concept Loads = requires(const T* p) {
  __ldg(p);
  __ldcs(p);
  __ldcg(p);
};
template <class T>
concept Stores = requires(T* p, T v) {
  __stcs(p, v);
  __stwt(p, v);
};
template <class... T>
constexpr bool all_hinted = ((Loads<T> && Stores<T>) && ...);
template <class... T>
constexpr bool none_hinted = ((!Loads<T> && !Stores<T>) && ...);
static_assert(all_hinted<char, unsigned char, short, int, unsigned, int64_t, uint64_t, long long, float, double>);
static_assert(all_hinted<char4, uchar2, short4, int2, uint4, longlong2, float2, float4, double2>);
static_assert(all_hinted<__half, __half2, __nv_bfloat16, __nv_bfloat162>);
static_assert(none_hinted<bool, float3, int3, double4, Pair, float*, at::Half, at::BFloat16>);

template <class A, class B>
concept Compares = requires(A a, B b) {
  max(a, b);
  min(a, b);
};
static_assert(Compares<int, int> && Compares<short, char> && Compares<unsigned, int> && Compares<int64_t, int64_t>);
static_assert(Compares<float, float> && Compares<float, double> && Compares<double, float> && Compares<size_t, int64_t>);
static_assert(Compares<at::Half, at::Half> && std::is_same_v<decltype(max(0u, 1)), unsigned>);
static_assert(!Compares<int, float> && !Compares<int64_t, int> && !Compares<size_t, int> && !Compares<double, int>);
static_assert(!Compares<int64_t, long long> && !Compares<__half, __half> && !Compares<float2, float2>);

template <class T>
concept Ordered = requires(T a, T b) { a <= -b; };
static_assert(Ordered<at::Half> && Ordered<at::BFloat16>);  // as floats, and not as __half or __nv_bfloat16

static_assert(std::is_same_v<decltype(std::declval<const at::Half&>().operator __half()), __half>);
