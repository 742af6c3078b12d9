// The one device, and what its parts need of each other.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace emulator {

inline c10::Device cuda_device() { return c10::Device(c10::DeviceType::CUDA, 0); }

c10::Allocator* device_allocator();

}  // namespace emulator
