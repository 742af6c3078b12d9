#include "records.h"

#include <map>
#include <tuple>
#include <vector>

#include "memory.h"
#include "scheduler.h"

namespace emulator {
namespace {

struct Launch {
  std::string name;
  dim3 grid, block;
  size_t shared_bytes;
  int error;
  uint64_t count;

  bool repeats(const Launch& other) const {
    const auto key = [](const Launch& l) {
      return std::make_tuple(l.name, l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.shared_bytes, l.error);
    };
    return key(*this) == key(other);
  }
};

// A candidate may launch millions of times; only distinct launches are kept, up to a bound.
constexpr size_t kMostRecords = 1000;

std::vector<Launch> g_launches;
std::vector<Fault> g_faults;
std::vector<Fault> g_reports;
uint64_t g_reports_generation = 1;
std::string g_text;  // what the last take returned

std::string one_line(const std::string& text) {
  std::string clean;
  for (char c : text) {
    clean += (c == '\t' || c == '\n' || c == '\r') ? ' ' : c;
  }
  return clean;
}

const char* take(std::vector<Fault>* list) {
  g_text.clear();
  for (const Fault& fault : *list) {
    g_text += fault.kind + "\t" + one_line(fault.kernel) + "\t" + fault.where + "\t" + one_line(fault.message) + "\t" +
              fault.library + "\t" + std::to_string(fault.offset) + "\t" + one_line(fault.source) + "\t" +
              std::to_string(fault.line) + "\n";
  }
  list->clear();
  return g_text.c_str();
}

}  // namespace

void record_launch(const std::string& name, const LaunchConfig& config, int error) {
  const Launch launch{name, config.grid, config.block, config.shared_bytes, error, 1};
  for (Launch& known : g_launches) {
    if (known.repeats(launch)) {
      known.count++;
      return;
    }
  }
  if (g_launches.size() < kMostRecords) {
    g_launches.push_back(launch);
  }
}

void record_fault(const Fault& fault) {
  if (g_faults.size() < kMostRecords) {
    g_faults.push_back(fault);
  }
}

void record_report(const Fault& report) {
  if (g_reports.size() < kMostRecords) {
    g_reports.push_back(report);
  }
}

uint64_t reports_generation() { return g_reports_generation; }

}  // namespace emulator

using namespace emulator;

extern "C" {

const char* musadata_take_launches() {
  g_text.clear();
  for (const Launch& l : g_launches) {
    g_text += one_line(l.name);
    for (uint64_t value : {uint64_t{l.grid.x}, uint64_t{l.grid.y}, uint64_t{l.grid.z}, uint64_t{l.block.x},
                           uint64_t{l.block.y}, uint64_t{l.block.z}, uint64_t{l.shared_bytes},
                           static_cast<uint64_t>(l.error), l.count}) {
      g_text += "\t" + std::to_string(value);
    }
    g_text += "\n";
  }
  g_launches.clear();
  return g_text.c_str();
}

const char* musadata_take_faults() { return take(&g_faults); }

const char* musadata_take_reports() {
  settle_checker();
  g_reports_generation++;
  return take(&g_reports);
}

// kernels: 0 run, 1 do nothing, 2 run some of their blocks.
void musadata_configure(int order, uint64_t seed, int poison, int kernels, int checking, int settled) {
  set_order(static_cast<Order>(order), seed);
  set_poison(poison);
  set_null_kernels(kernels == 1);
  set_sampled(kernels == 2);
  set_checking(static_cast<Checking>(checking));
  cover_memory(static_cast<Checking>(checking) != Checking::kOff);
  settle_checker();
  set_settled(settled != 0);
}
}
