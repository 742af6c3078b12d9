// Asynchronous copies to shared memory, which a device may do at any time until the thread that asked has waited.
#pragma once

namespace emulator {

// A block begins, or goes on: nothing is waited for.
void forget_copies();

}  // namespace emulator
