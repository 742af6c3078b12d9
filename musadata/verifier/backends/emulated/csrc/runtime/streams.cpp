// Vector clocks over streams, as race detectors keep them over threads (Mattern 1989): each stream knows how much of
// every stream's work comes before its next work. Accesses to memory are not checked: two streams inside one call are assumed
// not to race if both begin after the call's inputs are there and end before its results are read.
#include "streams.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "records.h"

namespace emulator {
namespace {

using Clock = std::map<void*, uint64_t>;

struct Stream {
  bool blocking;  // the default stream waits for it, and it for the default stream
  Clock before;
  std::string last = {};  // what was queued last
  bool closed = false;  // its work still continues
};

void* const kLegacy = reinterpret_cast<void*>(1);
void* const kPerThread = reinterpret_cast<void*>(2);
constexpr uintptr_t kFirstHandle = 16;

std::mutex g_lock;
std::map<void*, Stream> g_streams = {{nullptr, {true, {}}}, {kPerThread, {true, {}}}};
std::map<void*, Clock> g_events;
Clock g_host;  // what the host has waited for
void* g_current = nullptr;  // PyTorch's current stream
uintptr_t g_next_handle = kFirstHandle;
uint64_t g_inputs = 0;  // the work of the default stream after which a call's inputs are there
bool g_in_call = false;

void merge(Clock* clock, const Clock& other) {
  for (const auto& [stream, count] : other) {
    uint64_t& known = (*clock)[stream];
    known = count > known ? count : known;
  }
}

void* handle_of(void* stream) { return stream == kLegacy ? nullptr : stream; }

// Advances a stream's clock to what its next work waits for. An unknown handle is the candidate's mistake.
Stream* advance(void* handle) {
  const auto found = g_streams.find(handle_of(handle));
  if (found == g_streams.end()) {
    return nullptr;
  }
  Stream& stream = found->second;
  merge(&stream.before, g_host);
  if (found->first == nullptr) {
    for (const auto& [other, its] : g_streams) {
      if (its.blocking) {
        merge(&stream.before, its.before);
      }
    }
  } else if (stream.blocking) {
    merge(&stream.before, g_streams.at(nullptr).before);
  }
  return &stream;
}

Stream* queue(void* handle, const char* what) {
  Stream* stream = advance(handle);
  if (stream != nullptr) {
    stream->before[handle_of(handle)]++;
    stream->last = what;
  }
  return stream;
}

void report(const std::string& kernel, const char* message) { record_report({"unordered_streams", kernel, "", message}); }

// All work is done: no stream is ahead of another.
void finish_all() {
  std::erase_if(g_streams, [](const auto& item) { return item.second.closed; });
  for (auto& [handle, stream] : g_streams) {
    stream.before.clear();
  }
  for (auto& [handle, clock] : g_events) {
    clock.clear();
  }
  g_host.clear();
  g_inputs = 0;
}

}  // namespace

void queue_kernel(void* handle, const char* name) {
  const std::lock_guard<std::mutex> lock(g_lock);
  Stream* stream = queue(handle, name);
  if (stream != nullptr && g_in_call && stream->before[nullptr] < g_inputs) {
    report(name, "it is launched on a stream that does not wait for PyTorch's current one, on which its inputs are made");
  }
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void* musadata_open_stream(int blocking) {
  const std::lock_guard<std::mutex> lock(g_lock);
  void* handle = reinterpret_cast<void*>(g_next_handle++);
  g_streams[handle] = {blocking != 0, {}};
  return handle;
}

void musadata_close_stream(void* handle) {
  const std::lock_guard<std::mutex> lock(g_lock);
  const auto found = g_streams.find(handle);
  if (found != g_streams.end() && handle != nullptr && handle != kPerThread) {
    found->second.closed = true;
  }
}

void* musadata_open_event() {
  const std::lock_guard<std::mutex> lock(g_lock);
  void* handle = reinterpret_cast<void*>(g_next_handle++);
  g_events[handle];
  return handle;
}

void musadata_close_event(void* event) {
  const std::lock_guard<std::mutex> lock(g_lock);
  g_events.erase(event);
}

void musadata_queue(void* stream, const char* what) {
  const std::lock_guard<std::mutex> lock(g_lock);
  queue(stream, what);
}

void musadata_record_event(void* event, void* stream) {
  const std::lock_guard<std::mutex> lock(g_lock);
  const Stream* recorded = advance(stream);
  if (recorded != nullptr) {
    g_events[event] = recorded->before;
  }
}

void musadata_wait_event(void* stream, void* event) {
  const std::lock_guard<std::mutex> lock(g_lock);
  if (Stream* waiting = advance(stream)) {
    merge(&waiting->before, g_events[event]);
  }
}

void musadata_await_stream(void* stream) {
  const std::lock_guard<std::mutex> lock(g_lock);
  if (const Stream* awaited = advance(stream)) {
    merge(&g_host, awaited->before);
  }
}

void musadata_await_event(void* event) {
  const std::lock_guard<std::mutex> lock(g_lock);
  merge(&g_host, g_events[event]);
}

void musadata_await_device() {
  const std::lock_guard<std::mutex> lock(g_lock);
  finish_all();
}

void* musadata_current_stream() { return g_current; }

void musadata_set_current_stream(void* stream) { g_current = stream; }

// The call computes its results from inputs that PyTorch has just queued.
void musadata_begin_call() {
  const std::lock_guard<std::mutex> lock(g_lock);
  finish_all();
  g_inputs = queue(nullptr, "")->before[nullptr];
  g_in_call = true;
}

void musadata_end_call() {
  const std::lock_guard<std::mutex> lock(g_lock);
  Stream* results = advance(nullptr);
  for (auto& [handle, stream] : g_streams) {
    if (g_in_call && stream.before[handle] > results->before[handle]) {
      report(stream.last, "the forward returns, and PyTorch's current stream does not wait for the one that this is on");
    }
  }
  g_in_call = false;
}
}
