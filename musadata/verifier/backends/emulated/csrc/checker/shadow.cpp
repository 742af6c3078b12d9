#include "shadow.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "../runtime/shared_memory.h"

namespace emulator {
namespace {

constexpr int kPageBits = 12;

struct Page {
  Cell cells[(1 << kPageBits) / 4];
};

std::unordered_map<uintptr_t, std::unique_ptr<Page>> g_pages;
uintptr_t g_last_number = ~uintptr_t{0};
Page* g_last_page = nullptr;
std::vector<bool> g_written(kSharedOffsets);

}  // namespace

Cell* cell_of(uintptr_t address) {
  const uintptr_t number = address >> kPageBits;
  if (number != g_last_number) {
    std::unique_ptr<Page>& page = g_pages[number];
    if (page == nullptr) {
      page = std::make_unique<Page>();
    }
    g_last_number = number;
    g_last_page = page.get();
  }
  return &g_last_page->cells[(address & ((1 << kPageBits) - 1)) >> 2];
}

void forget_shared_writes() { std::fill(g_written.begin(), g_written.end(), false); }

void note_shared_write(size_t offset, size_t bytes) {
  for (size_t i = offset; i < std::min(offset + bytes, kSharedOffsets); i++) {
    g_written[i] = true;
  }
}

bool shared_was_written(size_t offset, size_t bytes) {
  for (size_t i = offset; i < std::min(offset + bytes, kSharedOffsets); i++) {
    if (!g_written[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace emulator
