// wmma on a warp of fibers: element i of a fragment, in row-major order, lives in lane 31 - i % 32 at place i / 32. A
// device places them differently, and says so: only load, store and mma know where they are. Mirrored, since a loop
// over a stored tile in steps of 32 would else find in each lane what this lane has stored, and need no barrier.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <class T>
struct storage {
  using type = T;
};
template <>
struct storage<precision::tf32> {
  using type = float;
};

template <class Use, int M, int N, int K>
struct shape;
template <int M, int N, int K>
struct shape<matrix_a, M, N, K> {
  static constexpr int rows = M, columns = K;
};
template <int M, int N, int K>
struct shape<matrix_b, M, N, K> {
  static constexpr int rows = K, columns = N;
};
template <int M, int N, int K>
struct shape<accumulator, M, N, K> {
  static constexpr int rows = M, columns = N;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment {
 public:
  using element_type = typename storage<T>::type;
  static constexpr int rows = shape<Use, M, N, K>::rows;
  static constexpr int columns = shape<Use, M, N, K>::columns;
  static constexpr int num_elements = rows * columns / 32;
  element_type x[num_elements];
};

template <class T>
inline float widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<float>(value);
  } else {
    return value.to_float();
  }
}
template <class T>
inline T narrow(float value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    return T::from_float(value);
  }
}

inline int lane_of(int element) { return 31 - element % 32; }
// Which element is this lane's i-th.
inline int element_of(int i) { return i * 32 + 31 - emulator::musadata_lane(); }

// Where this lane's i-th element lies in memory.
template <class Fragment>
inline size_t offset_of(int i, unsigned leading, bool column_major) {
  const int element = element_of(i);
  const size_t row = element / Fragment::columns;
  const size_t column = element % Fragment::columns;
  return column_major ? column * leading + row : row * leading + column;
}

template <class Use, int M, int N, int K, class T, class Layout, class Value>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& target, Value value) {
  for (auto& element : target.x) {
    element = narrow<std::decay_t<decltype(element)>>(widen(value));
  }
}

// A device reads and writes tiles in vectors.
template <class Memory>
EMULATOR_INLINE void need_aligned_tile(const Memory* tile, unsigned leading, const char* file, int line) {
  emulator_need_aligned(tile, 16, "a matrix that wmma accesses", file, line);
  emulator_need_aligned(tile + leading, 16, "the second row of a matrix that wmma accesses", file, line);
}

template <class Use, int M, int N, int K, class T, class Layout, class Memory>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& target, const Memory* source, unsigned leading,
                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using Fragment = fragment<Use, M, N, K, T, Layout>;
  need_aligned_tile(source, leading, file, line);
  __syncwarp();
  for (int i = 0; i < Fragment::num_elements; i++) {
    target.x[i] = source[offset_of<Fragment>(i, leading, std::is_same_v<Layout, col_major>)];
  }
  __syncwarp();
}
template <int M, int N, int K, class T, class Memory>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& target, const Memory* source, unsigned leading,
                             layout_t layout, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  need_aligned_tile(source, leading, file, line);
  __syncwarp();
  for (int i = 0; i < Fragment::num_elements; i++) {
    target.x[i] = source[offset_of<Fragment>(i, leading, layout == mem_col_major)];
  }
  __syncwarp();
}
// Waits for the warp before it stores, as a device does, and not after: a thread that reads others' values must wait.
template <int M, int N, int K, class T, class Memory>
inline void store_matrix_sync(Memory* target, const fragment<accumulator, M, N, K, T>& source, unsigned leading,
                              layout_t layout, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  need_aligned_tile(target, leading, file, line);
  __syncwarp();
  for (int i = 0; i < Fragment::num_elements; i++) {
    target[offset_of<Fragment>(i, leading, layout == mem_col_major)] = source.x[i];
  }
}

// target = a * b + c. Products of integers are exact in double; products of 16-bit floats are exact in float.
template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
EMULATOR_UNSANITIZED inline void mma_sync(fragment<accumulator, M, N, K, D>& target, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                     const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, C>& c,
                     bool = false) {
  using A = fragment<matrix_a, M, N, K, T, LayoutA>;
  using B = fragment<matrix_b, M, N, K, T, LayoutB>;
  using Result = fragment<accumulator, M, N, K, D>;
  struct Operands {
    const A* a;
    const B* b;
  } own{&a, &b};
  emulator::Collective exchange{emulator::CollectiveKind::kGather};
  exchange.in = &own;
  exchange.size = sizeof own;
  emulator::musadata_collective(~0u, &exchange);
#define operands_of(element) static_cast<const Operands*>(exchange.inputs[lane_of(element)])
  Result result;
  for (int i = 0; i < Result::num_elements; i++) {
    const int element = element_of(i);
    const int row = element / Result::columns;
    const int column = element % Result::columns;
    float sum = widen(c.x[i]);
    for (int k = 0; k < K; k++) {
      const int in_a = row * A::columns + k;
      const int in_b = k * B::columns + column;
      sum += widen(operands_of(in_a)->a->x[in_a / 32]) * widen(operands_of(in_b)->b->x[in_b / 32]);
    }
    result.x[i] = narrow<typename Result::element_type>(sum);
  }
#undef operands_of
  __syncwarp();  // operands may change only after all lanes have read them
  target = result;
}

inline float __float_to_tf32(float value) {
  return __uint_as_float((__float_as_uint(value) + 0x1000u) & ~0x1fffu);
}

}  // namespace wmma
}  // namespace nvcuda
