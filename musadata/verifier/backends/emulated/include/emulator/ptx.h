// The functions into which the rewriter turns inline PTX. Registers have no type: an instruction reads bits, and its
// name says how to interpret them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace emulator::ptx {

// The bits of a register as a value of an instruction's type; wider and narrower registers are cut and filled.
template <class To, class From>
EMULATOR_INLINE To as(From value) {
  if constexpr (std::is_pointer_v<From>) {
    return as<To>((uint64_t)value);
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (sizeof(To) == sizeof(From)) {
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
  } else if constexpr (std::is_arithmetic_v<From> || std::is_enum_v<From>) {
    return static_cast<To>(value);
  } else {
    To result{};
    __builtin_memcpy(&result, &value, std::min(sizeof result, sizeof value));
    return result;
  }
}
template <class Register, class Value>
EMULATOR_INLINE void put(Register& target, const Value& value) {
  target = as<std::remove_volatile_t<Register>>(value);
}

// ---- memory
template <class T, int Count>
struct alignas(sizeof(T) * Count) Vector {
  T at[Count];
};
EMULATOR_INLINE char* global(uint64_t address) { return reinterpret_cast<char*>(address); }
EMULATOR_INLINE char* shared(uint64_t address) { return musadata_shared_base() + static_cast<uint32_t>(address); }
EMULATOR_INLINE uint64_t to_shared(uint64_t address) {
  return static_cast<uint32_t>(global(address) - musadata_shared_base());
}
template <class T>
EMULATOR_INLINE T* aligned(char* address) {
  if (reinterpret_cast<uint64_t>(address) % alignof(T) != 0) {
    musadata_kernel_fault("misaligned", "inline PTX uses an address that is not a multiple of what it loads or stores");
  }
  return reinterpret_cast<T*>(address);
}
template <class T, int Count = 1>
EMULATOR_INLINE Vector<T, Count> load(char* address) {
  const auto* from = aligned<const Vector<T, Count>>(address);
  Vector<T, Count> result;
  for (int i = 0; i < Count; i++) {
    result.at[i] = from->at[i];
  }
  return result;
}
template <class T, int Count = 1>
EMULATOR_INLINE void store(char* address, const Vector<T, Count>& value) {
  auto* to = aligned<Vector<T, Count>>(address);
  for (int i = 0; i < Count; i++) {
    to->at[i] = value.at[i];
  }
}
// Those that other threads may race with: relaxed, acquire, release.
template <class T>
EMULATOR_UNSANITIZED inline T load_plain(const T* address) {
  return *static_cast<const volatile T*>(address);
}
template <class T>
EMULATOR_UNSANITIZED inline void store_plain(T* address, T value) {
  *static_cast<volatile T*>(address) = value;
}
template <class T>
EMULATOR_INLINE Vector<T, 1> load_atomic(char* address) {
  T* from = aligned<T>(address);
  EMULATOR_NOTE_ATOMIC(from);
  return {load_plain(from)};
}
template <class T>
EMULATOR_INLINE void store_atomic(char* address, const Vector<T, 1>& value) {
  T* to = aligned<T>(address);
  EMULATOR_NOTE_ATOMIC(to);
  store_plain(to, value.at[0]);
}
template <class T>
EMULATOR_INLINE T* place(char* address) {
  return aligned<T>(address);
}

// ---- integers
template <class T>
EMULATOR_INLINE T shift_left(T value, uint32_t by) {
  return by >= 8 * sizeof(T) ? T(0) : static_cast<T>(value << by);
}
template <class T>
EMULATOR_INLINE T shift_right(T value, uint32_t by) {
  constexpr uint32_t most = 8 * sizeof(T) - 1;
  return by <= most ? static_cast<T>(value >> by) : std::is_signed_v<T> ? static_cast<T>(value >> most) : T(0);
}
template <class Wide, class T>
EMULATOR_INLINE T product_high(T a, T b) {
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> 8 * sizeof(T));
}
template <class T>
EMULATOR_INLINE T extract(T value, uint32_t from, uint32_t length) {
  constexpr uint32_t bits = 8 * sizeof(T);
  using Bits = std::make_unsigned_t<T>;
  from &= 255;
  length &= 255;
  if (length == 0) {
    return 0;
  }
  const bool sign = std::is_signed_v<T> && (value >> std::min(from + length - 1, bits - 1) & 1);
  Bits result = from < bits ? static_cast<Bits>(value) >> from : Bits(0);
  const uint32_t taken = std::min(length, from < bits ? bits - from : 0);
  const Bits mask = taken >= bits ? ~Bits(0) : (Bits(1) << taken) - 1;
  return static_cast<T>(sign ? (result & mask) | ~mask : result & mask);
}
template <class T>
EMULATOR_INLINE T insert(T field, T into, uint32_t from, uint32_t length) {
  constexpr uint32_t bits = 8 * sizeof(T);
  from &= 255;
  length &= 255;
  if (length == 0 || from >= bits) {
    return into;
  }
  const T mask = (length >= bits ? ~T(0) : (T(1) << length) - 1) << from;
  return (into & ~mask) | (field << from & mask);
}
EMULATOR_INLINE uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  uint32_t result = 0;
  for (int byte = 0; byte < 4; byte++) {
    const uint32_t choice = selector >> 4 * byte & 15;
    uint32_t chosen = both >> 8 * (choice & 7) & 0xff;
    if (choice & 8) {
      chosen = chosen & 0x80 ? 0xff : 0;  // its sign alone
    }
    result |= chosen << 8 * byte;
  }
  return result;
}
EMULATOR_INLINE uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (int bit = 0; bit < 32; bit++) {
    const uint32_t row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
    result |= (table >> row & 1) << bit;
  }
  return result;
}
EMULATOR_INLINE uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
  return by >= 32 ? low : static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) << by >> 32);
}
EMULATOR_INLINE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
  return by >= 32 ? high : static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> by);
}

// ---- floating point
template <class T>
EMULATOR_INLINE T larger_or_nan(T a, T b) {
  return a != a ? a : b != b ? b : std::fmax(a, b);
}
template <class T>
EMULATOR_INLINE T smaller_or_nan(T a, T b) {
  return a != a ? a : b != b ? b : std::fmin(a, b);
}
template <class T>
EMULATOR_INLINE T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmax(a, b);
  } else {
    return a > b ? a : b;
  }
}
template <class T>
EMULATOR_INLINE T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmin(a, b);
  } else {
    return a < b ? a : b;
  }
}
template <class To, class From>
EMULATOR_INLINE To clamp(From value) {
  const auto low = std::numeric_limits<To>::min();
  const auto high = std::numeric_limits<To>::max();
  return std::cmp_less(value, low) ? low : std::cmp_greater(value, high) ? high : static_cast<To>(value);
}
EMULATOR_INLINE float to_tf32(float value) {
  return as<float>((as<uint32_t>(value) + 0x1000u) & ~0x1fffu);
}

// ---- warps
enum class Direction { kUp, kDown, kButterfly, kIndex };
template <Direction direction>
EMULATOR_INLINE uint32_t shuffle(uint32_t value, uint32_t by, uint32_t limits, uint32_t mask, bool* inside) {
  const int lane = musadata_lane();
  const int segment = limits >> 8 & 31;
  const int amount = by & 31;
  const int first = lane & segment;
  const int last = first | (limits & 31 & ~segment);
  int source = direction == Direction::kUp          ? lane - amount
               : direction == Direction::kDown      ? lane + amount
               : direction == Direction::kButterfly ? lane ^ amount
                                                    : first | (amount & ~segment);
  *inside = direction == Direction::kUp ? source >= last : source <= last;
  return emulator::shuffle(mask, value, *inside ? source : lane);
}

// Which of the device's multiprocessors runs this block: any.
EMULATOR_INLINE uint32_t multiprocessor() { return (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) % 132; }

// ---- matrices: which lane holds what is as the PTX manual draws it
template <int Count, bool Transposed>
EMULATOR_UNSANITIZED inline Vector<uint32_t, Count> load_matrices(const Vector<uint32_t, 4>& row) {
  Collective exchange{CollectiveKind::kGather};
  exchange.in = &row;
  exchange.size = sizeof row;
  musadata_collective(~0u, &exchange);
  const int lane = musadata_lane();
  Vector<uint32_t, Count> result;
  for (int matrix = 0; matrix < Count; matrix++) {
    const auto halves = [&](int of_row, int column) -> uint32_t {
      const auto* words = static_cast<const Vector<uint32_t, 4>*>(exchange.inputs[8 * matrix + of_row]);
      return words->at[column / 2] >> 16 * (column % 2) & 0xffff;
    };
    const int outer = lane / 4;
    const int inner = lane % 4 * 2;
    result.at[matrix] = Transposed ? halves(inner, outer) | halves(inner + 1, outer) << 16
                                   : halves(outer, inner) | halves(outer, inner + 1) << 16;
  }
  sync_warp(~0u);  // rows stay until all lanes have read them
  return result;
}
// Each of the first 8 * Count lanes names a row of 16 bytes.
template <int Count, bool Transposed>
EMULATOR_INLINE Vector<uint32_t, Count> load_matrix(char* address) {
  Vector<uint32_t, 4> row{};
  if (musadata_lane() < 8 * Count) {
    row = load<uint32_t, 4>(address);
  }
  return load_matrices<Count, Transposed>(row);
}

template <class T>
EMULATOR_INLINE float element(const uint32_t* words, int index) {
  if constexpr (sizeof(T) == 4) {
    return as<float>(words[index] & ~0x1fffu);  // TF32: a device does not look at the rest
  } else {
    return as<T>(static_cast<uint16_t>(words[index / 2] >> 16 * (index % 2))).to_float();
  }
}
// d = a * b + c with a of 16 by K, b of K by 8, both of T. Words hold one or two elements.
template <class T, int K>
EMULATOR_UNSANITIZED inline Vector<float, 4> multiply(const uint32_t* a, const uint32_t* b, const float* c) {
  constexpr int per_word = 4 / sizeof(T);
  constexpr int words_of_a = 16 * K / 32 / per_word;
  constexpr int words_of_b = 8 * K / 32 / per_word;
  struct Operands {
    uint32_t a[words_of_a], b[words_of_b];
  } own;
  for (int i = 0; i < words_of_a; i++) own.a[i] = a[i];
  for (int i = 0; i < words_of_b; i++) own.b[i] = b[i];
  Collective exchange{CollectiveKind::kGather};
  exchange.in = &own;
  exchange.size = sizeof own;
  musadata_collective(~0u, &exchange);
  const auto of_lane = [&](int lane) { return static_cast<const Operands*>(exchange.inputs[lane]); };
  constexpr int step = 4 * per_word;  // columns of a that one word of all lanes covers
  const int lane = musadata_lane();
  Vector<float, 4> result;
  for (int i = 0; i < 4; i++) {
    const int column = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (int k = 0; k < K; k++) {
      const int holder = k % step / per_word;
      const int in_a = (2 * (k / step) + i / 2) * per_word + k % per_word;
      const int in_b = k / step * per_word + k % per_word;
      sum += element<T>(of_lane(lane / 4 * 4 + holder)->a, in_a) * element<T>(of_lane(column * 4 + holder)->b, in_b);
    }
    result.at[i] = sum;
  }
  sync_warp(~0u);
  return result;
}

}  // namespace emulator::ptx
