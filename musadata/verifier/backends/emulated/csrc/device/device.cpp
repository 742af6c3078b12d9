// cuda:0 over host memory: allocator, guard and hooks. Replaces the real ones of a CUDA build that found no GPU.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <memory>

#include "../runtime/memory.h"

namespace emulator {
namespace {

void copy_bytes(void* target, const void* source, size_t bytes) {
  const Uncovered uncovered;
  memcpy(target, source, bytes);
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &release, cuda_device()};
    }
    void* address = musadata_device_allocate(bytes);
    TORCH_CHECK(address != nullptr, "CUDA out of memory. Tried to allocate ", bytes, " bytes.");
    return {address, address, &release, cuda_device()};
  }
  static void release(void* address) {
    if (address != nullptr) {
      musadata_device_free(address);
    }
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override { copy_bytes(target, source, bytes); }
};

DeviceAllocator g_allocator;

// What `pin_memory=True` asks for.
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* address = musadata_device_allocate_shared(bytes);
    TORCH_CHECK(address != nullptr, "out of memory: ", bytes, " pinned bytes.");
    return {address, address, &DeviceAllocator::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &DeviceAllocator::release; }
  void copy_data(void* target, const void* source, size_t bytes) const override { copy_bytes(target, source, bytes); }
};

PinnedAllocator g_pinned;

c10::Stream the_stream() { return c10::Stream(c10::Stream::DEFAULT, cuda_device()); }

// All work is finished when a call returns, so streams and events have nothing to do.
struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return cuda_device(); }
  c10::Device getDevice() const override { return cuda_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return the_stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return the_stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return the_stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return the_stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

// No data members: `replace_hooks` puts this class in the place of another's object.
struct DeviceHooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  c10::Device getDeviceFromPtr(void*) const override { return cuda_device(); }
  c10::Allocator* getCUDADeviceAllocator() const override { return &g_allocator; }
  bool isPinnedPtr(const void* address) const override { return musadata_device_is_shared(address) != 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &g_pinned; }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
};

// torch keeps one hooks object for ever, and importing it may already have made that object. The registry takes our
// class only if we come first; so the existing object is turned into one of ours by its virtual table.
void replace_hooks() {
  static DeviceHooks ours;
  auto& existing = const_cast<at::CUDAHooksInterface&>(at::detail::getCUDAHooks());
  memcpy(static_cast<void*>(&existing), static_cast<const void*>(&ours), sizeof(void*));
}

}  // namespace

c10::Allocator* device_allocator() { return &g_allocator; }

void install_kernels();

}  // namespace emulator

extern "C" int musadata_device_install() {
  using namespace emulator;
  static DeviceGuard guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(&guard);
  c10::SetAllocator(c10::DeviceType::CUDA, &g_allocator, 255);
  replace_hooks();
  install_kernels();
  return 0;
}
