// What a call changes of what was there before it.
#pragma once

namespace emulator {

void snapshot_memory();
bool memory_changed();  // since it was kept; memory that has been freed since is left out

}  // namespace emulator

extern "C" {
void musadata_snapshot_memory();
int musadata_memory_changed();
}
