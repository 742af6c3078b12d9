#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace emulator {
namespace {

// Vector loads of 16 bytes must stay legal, so a block ends at most 15 bytes before its guard page. CUDA's allocators
// align to 256, which would hide reads of up to 255 bytes past the end; no access needs more than 16.
constexpr size_t kAlignment = 16;

// Each guarded block costs three kernel mappings of 65,530 that a process may have; beyond this, plain memory.
constexpr size_t kMostGuarded = 16384;

// Pages without access after a block, as long as blocks are few: a wrong index that lands in the next block is not seen,
// and which block is next depends on what the process has allocated before.
constexpr size_t kWideGuard = 256 * 1024;
constexpr size_t kMostWide = 1024;

// How much of the space around a block is watched for stray writes.
constexpr size_t kFrontWatch = 256;

struct Block {
  char* base;
  size_t bytes;
  char* mapping;  // null for adopted memory
  size_t mapping_bytes;
  size_t front_watch;  // poisoned bytes before `base`
  size_t back_watch;  // poisoned bytes after the end
  bool reported;
  bool managed;
  uint64_t serial = 0;  // another one for each block, at whatever address
};

std::map<uintptr_t, Block> g_blocks;  // by first address
std::mutex g_mutex;
uint64_t g_generation = 1;
size_t g_guarded = 0;
size_t g_live = 0;
size_t g_peak = 0;
int g_poison = 0xFF;
std::atomic<size_t> g_host_bytes{0};
size_t g_shared_before = 0;
bool g_covered = false;
int g_uncovered = 0;  // by how many at a time

// The watched surroundings keep a byte of their own: a candidate may legally write the poison byte.
constexpr unsigned char kWatchByte = 0xC5;

void enter(const Block& block) {
  std::lock_guard<std::mutex> lock(g_mutex);
  Block& entered = g_blocks[reinterpret_cast<uintptr_t>(block.base)];
  entered = block;
  entered.serial = ++g_generation;
  g_guarded += block.mapping != nullptr;
  g_live += block.bytes;
  g_peak = std::max(g_peak, g_live);
}

BlockRange range_of(const Block& block) {
  const char* end = block.base + block.bytes;
  const size_t behind = block.mapping == nullptr ? 0 : block.mapping + block.mapping_bytes - end;
  return {block.base, block.bytes, behind, block.managed};
}

bool take(void* address, Block* block) {
  std::lock_guard<std::mutex> lock(g_mutex);
  auto found = g_blocks.find(reinterpret_cast<uintptr_t>(address));
  if (found == g_blocks.end()) {
    return false;
  }
  *block = found->second;
  g_blocks.erase(found);
  g_generation++;
  g_guarded -= block->mapping != nullptr;
  g_live -= block->bytes;
  return true;
}

bool first_changed(const char* begin, size_t bytes, size_t* index) {
  for (size_t i = 0; i < bytes; i++) {
    if (static_cast<unsigned char>(begin[i]) != kWatchByte) {
      *index = i;
      return true;
    }
  }
  return false;
}

// Neither memory that the host may touch, too, nor results of operators that another allocator made.
void protect_blocks(bool covered) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const auto& [address, block] : g_blocks) {
    if (block.mapping != nullptr && !block.managed) {
      const uintptr_t begin = address / page * page;
      const uintptr_t end = (address + block.bytes + page - 1) / page * page;
      mprotect(reinterpret_cast<void*>(begin), end - begin, covered ? PROT_NONE : PROT_READ | PROT_WRITE);
    }
  }
}

}  // namespace

void cover_memory(bool covered) {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (covered != g_covered && g_uncovered == 0) {
    protect_blocks(covered);
  }
  g_covered = covered;
}

bool is_covered() { return g_covered; }

Uncovered::Uncovered() {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (g_uncovered++ == 0 && g_covered) {
    protect_blocks(false);
  }
}

Uncovered::~Uncovered() {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (--g_uncovered == 0 && g_covered) {
    protect_blocks(true);
  }
}

void* allocate_device(size_t bytes) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > (size_t{1} << 46)) {
    return nullptr;
  }
  const size_t body = std::max(page, (bytes + page - 1) / page * page);
  const size_t guard = g_guarded < kMostGuarded ? page : 0;
  const size_t total = body + guard + (g_guarded < kMostWide ? kWideGuard : guard);
  void* mapping = mmap(nullptr, total, guard ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return nullptr;
  }
  char* pages = static_cast<char*>(mapping) + guard;
  if (guard != 0 && mprotect(pages, body, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, total);
    return nullptr;
  }
  // Right-aligned: running off the end is the common mistake.
  const size_t offset = (body - bytes) / kAlignment * kAlignment;
  Block block{pages + offset, bytes, static_cast<char*>(mapping), total, std::min(offset, kFrontWatch),
              body - bytes - offset, false, false};
  memset(block.base - block.front_watch, kWatchByte, block.front_watch);
  if (g_poison >= 0) {
    memset(block.base, g_poison, bytes);
  }
  memset(block.base + bytes, kWatchByte, block.back_watch);
  enter(block);
  return block.base;
}

bool release_device(void* address) {
  Block block;
  if (!take(address, &block)) {
    return false;
  }
  if (block.mapping != nullptr) {
    munmap(block.mapping, block.mapping_bytes);
  }
  return true;
}

void adopt_device(void* address, size_t bytes) {
  if (address != nullptr && bytes != 0) {
    enter(Block{static_cast<char*>(address), bytes, nullptr, 0, 0, 0, false, false});
  }
}

void adopt_symbol(void* address, size_t bytes) {
  BlockRange range;
  if (find_block(address, &range) != Lookup::kInside) {
    adopt_device(address, bytes);
  }
}

void disown_device(void* address) {
  Block block;
  take(address, &block);
}

void note_host_bytes(size_t bytes) { g_host_bytes += bytes; }

void make_managed(void* address) {
  std::lock_guard<std::mutex> lock(g_mutex);
  auto found = g_blocks.find(reinterpret_cast<uintptr_t>(address));
  if (found != g_blocks.end()) {
    found->second.managed = true;
    note_host_bytes(found->second.bytes);
  }
}

size_t take_host_bytes() {
  std::lock_guard<std::mutex> lock(g_mutex);
  const size_t bytes = g_host_bytes.exchange(0) + g_shared_before;
  g_shared_before = 0;
  for (const auto& entry : g_blocks) {
    g_shared_before += entry.second.managed ? entry.second.bytes : 0;
  }
  return bytes;
}

Lookup find_block(const void* address, BlockRange* range) {
  std::lock_guard<std::mutex> lock(g_mutex);
  const auto where = reinterpret_cast<uintptr_t>(address);
  auto next = g_blocks.upper_bound(where);
  if (next == g_blocks.begin()) {
    return Lookup::kNone;
  }
  const Block& block = std::prev(next)->second;
  *range = range_of(block);
  return where < reinterpret_cast<uintptr_t>(block.base) + block.bytes ? Lookup::kInside : Lookup::kPastEnd;
}

bool find_overrun(BlockRange* range, long* offset) {
  std::lock_guard<std::mutex> lock(g_mutex);
  for (auto& [address, block] : g_blocks) {
    size_t index = 0;
    if (block.reported) {
      continue;
    }
    if (first_changed(block.base + block.bytes, block.back_watch, &index)) {
      *offset = static_cast<long>(block.bytes + index);
    } else if (first_changed(block.base - block.front_watch, block.front_watch, &index)) {
      *offset = static_cast<long>(index) - static_cast<long>(block.front_watch);
    } else {
      continue;
    }
    block.reported = true;
    *range = range_of(block);
    return true;
  }
  return false;
}

void for_each_block(const std::function<void(char*, size_t, uint64_t)>& visit) {
  std::lock_guard<std::mutex> lock(g_mutex);
  for (const auto& [address, block] : g_blocks) {
    visit(block.base, block.bytes, block.serial);
  }
}

uint64_t block_serial_at(const void* base) {
  std::lock_guard<std::mutex> lock(g_mutex);
  auto found = g_blocks.find(reinterpret_cast<uintptr_t>(base));
  return found == g_blocks.end() ? 0 : found->second.serial;
}

uint64_t memory_generation() { return g_generation; }

void set_poison(int byte) { g_poison = byte; }

int poison() { return g_poison; }

}  // namespace emulator

extern "C" {
void* musadata_device_allocate(size_t bytes) { return emulator::allocate_device(bytes); }
void musadata_device_free(void* address) { emulator::release_device(address); }
void musadata_device_adopt(void* address, size_t bytes) { emulator::adopt_device(address, bytes); }
void musadata_device_disown(void* address) { emulator::disown_device(address); }
void* musadata_device_allocate_shared(size_t bytes) {
  void* address = emulator::allocate_device(bytes);
  emulator::make_managed(address);
  return address;
}
int musadata_device_is_covered() { return emulator::is_covered(); }
int musadata_device_is_shared(const void* address) {
  emulator::BlockRange range;
  return emulator::find_block(address, &range) == emulator::Lookup::kInside && range.managed;
}
size_t musadata_device_peak() { return emulator::g_peak; }
void musadata_device_reset_peak() { emulator::g_peak = emulator::g_live; }
size_t musadata_device_live() { return emulator::g_live; }
size_t musadata_take_host_bytes() { return emulator::take_host_bytes(); }
}
