#include "tally.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr uint64_t kSector = 32;
constexpr uint64_t kLine = 128;
constexpr uint64_t kBankBytes = 4;
constexpr int kBanks = 32;
const char* const kNames[] = {"load", "store", "atomic"};

int active(const WarpAccess& access) { return __builtin_popcount(access.lanes); }

// Offset of each active lane, ascending.
std::vector<uint64_t> offsets(const WarpAccess& access) {
  std::vector<uint64_t> found;
  for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    found.push_back(access.at[__builtin_ctz(rest)]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// How many pieces of `grain` bytes the accesses touch; `starts` ascend.
uint64_t count_pieces(const std::vector<uint64_t>& starts, uint64_t bytes, uint64_t grain) {
  uint64_t count = 0, next = 0;
  for (const uint64_t start : starts) {
    const uint64_t first = std::max(start / grain, next), last = (start + bytes - 1) / grain;
    if (first <= last) {
      count += last - first + 1;
      next = last + 1;
    }
  }
  return count;
}

// The lanes of the access that most lanes make to the same place.
uint64_t most_alike(const std::vector<uint64_t>& starts) {
  uint64_t most = 0, run = 0;
  for (size_t i = 0; i < starts.size(); i++) {
    run = i > 0 && starts[i] == starts[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

// A warp's access of 4 bytes a lane or less is one phase, of 8 bytes two, of 16 bytes four.
int lanes_of_phase(uint32_t bytes) { return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8; }

// Wavefronts of one phase: a bank serves one word of 4 bytes, to any number of lanes.
uint64_t count_wavefronts(const WarpAccess& access, uint32_t lanes) {
  std::vector<uint64_t> words;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t start = access.at[__builtin_ctz(rest)];
    for (uint64_t word = start / kBankBytes; word <= (start + access.bytes - 1) / kBankBytes; word++) {
      words.push_back(word);
    }
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  uint64_t of_bank[kBanks] = {}, most = 0;
  for (const uint64_t word : words) {
    most = std::max(most, ++of_bank[word % kBanks]);
  }
  return most;
}

template <class... Values>
std::string row(const char* kind, const Values&... values) {
  std::string text = kind;
  ((text += "\t" + std::to_string(values)), ...);
  return text + "\n";
}

}  // namespace

uint64_t Touched::sum(bool of_writes, size_t grain) const {
  const std::vector<uint8_t>& marks = of_writes ? written : read;
  uint64_t count = 0;
  for (size_t start = 0; start < marks.size(); start += grain) {
    const auto end = marks.begin() + std::min(start + grain, marks.size());
    count += std::find(marks.begin() + start, end, 1) != end;
  }
  return count;
}

void Tally::add(const WarpAccess& access, size_t buffer_bytes) {
  if (access.shared) {
    add_shared(access);
  } else {
    add_global(access, buffer_bytes);
  }
}

void Tally::add_global(const WarpAccess& access, size_t buffer_bytes) {
  const std::vector<uint64_t> starts = offsets(access);
  GlobalSums& sums = global[{access.buffer, access.operation}];
  sums.requests++;
  sums.lanes += active(access);
  sums.bytes += uint64_t{access.bytes} * active(access);
  sums.sectors += count_pieces(starts, access.bytes, kSector);
  sums.least_sectors += (count_pieces(starts, access.bytes, 1) + kSector - 1) / kSector;
  sums.lines += count_pieces(starts, access.bytes, kLine);
  sums.turns += access.operation == Operation::kAtomic ? most_alike(starts) : 0;
  Touched& marks = touched[access.buffer];
  for (std::vector<uint8_t>* side : {&marks.read, &marks.written}) {
    if ((side == &marks.read && access.operation == Operation::kStore) ||
        (side == &marks.written && access.operation == Operation::kLoad)) {
      continue;
    }
    if (side->size() < buffer_bytes) {
      side->resize(buffer_bytes);
    }
    for (const uint64_t start : starts) {
      if (start + access.bytes <= side->size()) {
        std::fill_n(side->begin() + start, access.bytes, 1);
      }
    }
  }
}

void Tally::add_shared(const WarpAccess& access) {
  SharedSums& sums = shared[access.operation];
  sums.requests++;
  sums.lanes += active(access);
  sums.turns += access.operation == Operation::kAtomic ? most_alike(offsets(access)) : 0;
  const int width = lanes_of_phase(access.bytes);
  for (int first = 0; first < kLanes; first += width) {
    const uint32_t mask = width == kLanes ? ~0u : ((1u << width) - 1) << first;
    const uint64_t wavefronts = count_wavefronts(access, access.lanes & mask);
    sums.wavefronts += wavefronts;
    sums.conflicts += wavefronts > 0 ? wavefronts - 1 : 0;
    sums.worst = std::max(sums.worst, wavefronts);
  }
}

std::string Tally::rows() const {
  std::string text;
  for (const auto& [key, sums] : global) {
    text += std::string("global\t") + kNames[static_cast<int>(key.second)];
    text += row("", key.first, sums.requests, sums.lanes, sums.bytes, sums.sectors, sums.least_sectors, sums.lines, sums.turns);
  }
  for (const auto& [operation, sums] : shared) {
    text += std::string("shared\t") + kNames[static_cast<int>(operation)];
    text += row("", sums.requests, sums.lanes, sums.wavefronts, sums.conflicts, sums.worst, sums.turns);
  }
  for (const auto& [buffer, marks] : touched) {
    text += row("touched", buffer, marks.sum(false, 1), marks.sum(false, kSector), marks.sum(true, 1), marks.sum(true, kSector));
  }
  return text;
}

}  // namespace emulator
