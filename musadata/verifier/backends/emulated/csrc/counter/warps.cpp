#include "warps.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr size_t kMostHeld = 200'000;  // instructions of warps between two flushes: 60 MB

}  // namespace

void Warps::begin(int threads, uint32_t window) {
  *this = Warps{};
  threads_ = threads;
  window_ = window;
  pending_.resize(threads);
  warps_.resize((threads + kLanes - 1) / kLanes);
}

void Warps::add(int thread, uint64_t epoch, const ThreadAccess& access, size_t buffer_bytes) {
  Warp& warp = warps_[thread / kLanes];
  if (warp.epoch != epoch) {
    flush(&warp);
    warp.epoch = epoch;
  }
  if (!access.shared) {
    sizes_[access.buffer] = buffer_bytes;
  }
  Pending& pending = pending_[thread];
  if (pending.is_there && joins(pending, access)) {
    pending.access.bytes = static_cast<uint32_t>(access.at + access.bytes - pending.access.at);
    pending.last_site = access.site;
    return;
  }
  commit(thread);
  pending = {access, epoch, access.site, true};
  if (window_ == 0) {
    commit(thread);
  }
}

// Whether an access is to the next component of the vector that `pending` accesses.
bool Warps::joins(const Pending& pending, const ThreadAccess& access) const {
  const ThreadAccess& before = pending.access;
  return before.operation == access.operation && before.operation != Operation::kAtomic &&
         before.shared == access.shared && before.buffer == access.buffer && pending.last_site < access.site &&
         before.at + before.bytes <= access.at && before.at / window_ == (access.at + access.bytes - 1) / window_;
}

void Warps::commit(int thread) {
  Pending& pending = pending_[thread];
  if (!pending.is_there) {
    return;
  }
  pending.is_there = false;
  const ThreadAccess& access = pending.access;
  Warp& warp = warps_[thread / kLanes];
  const auto [found, is_new] = warp.sites.try_emplace(access.site);
  if (is_new) {
    warp.order.push_back(access.site);
  }
  Site& site = found->second;
  const int lane = thread % kLanes;
  const uint32_t turn = site.counts[lane]++;
  if (turn == site.accesses.size()) {
    if (++held_ > kMostHeld) {
      overflow = true;
      return;
    }
    site.accesses.push_back({access.operation, access.shared, access.buffer, access.bytes, 0, {}});
  }
  if (turn < site.accesses.size()) {
    WarpAccess& together = site.accesses[turn];
    together.lanes |= 1u << lane;
    together.bytes = std::max(together.bytes, access.bytes);
    together.at[lane] = access.at;
  }
}

void Warps::flush(Warp* warp) {
  const int first = static_cast<int>(warp - warps_.data()) * kLanes;
  for (int thread = first; thread < std::min(first + kLanes, threads_); thread++) {
    commit(thread);
  }
  for (const void* place : warp->order) {
    const Site& site = warp->sites[place];
    uint32_t least = UINT32_MAX, most = 0;
    for (const uint32_t count : site.counts) {
      least = count > 0 ? std::min(least, count) : least;
      most = std::max(most, count);
    }
    alignment.repeated |= most > 1;
    alignment.uneven |= most > 1 && least != most;
    for (const WarpAccess& access : site.accesses) {
      tally.add(access, access.shared ? 0 : sizes_[access.buffer]);
      warp->masks[access.lanes]++;
    }
    held_ -= std::min(held_, site.accesses.size());
  }
  warp->sites.clear();
  warp->order.clear();
}

void Warps::end_block(bool finished) {
  for (Warp& warp : warps_) {
    flush(&warp);
    if (!finished) {
      continue;
    }
    uint32_t all = 0;
    uint64_t divergent = 0;
    for (const auto& [mask, count] : warp.masks) {
      all |= mask;
    }
    for (const auto& [mask, count] : warp.masks) {
      lockstep.requests += count;
      lockstep.lanes += count * __builtin_popcount(mask);
      divergent += mask != all ? count : 0;
    }
    const int lanes = std::min(kLanes, threads_ - static_cast<int>(&warp - warps_.data()) * kLanes);
    lockstep.idle_threads += lanes - __builtin_popcount(all);
    lockstep.warps += all != 0;
    lockstep.divergent_requests += divergent;
    lockstep.divergent_warps += divergent != 0;
    warp.masks.clear();
  }
}

}  // namespace emulator
