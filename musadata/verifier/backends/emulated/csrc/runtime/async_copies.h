// Asynchronous copies to shared memory, which a device may do at any time until the requesting thread has waited.
#pragma once

namespace emulator {

// A block begins or continues: no copy is pending.
void forget_copies();

}  // namespace emulator
