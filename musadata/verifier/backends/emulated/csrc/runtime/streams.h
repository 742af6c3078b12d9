// Which work on the device waits for which. Here all of it is finished when a call returns; on a device, work on a
// stream that nothing waits for may still run when its result is read.
#pragma once

namespace emulator {

// A kernel's launch on a stream.
void queue_kernel(void* stream, const char* name);

}  // namespace emulator
