// Whether a call changes memory that was there before it.
#pragma once

namespace emulator {

void snapshot_memory();
bool memory_changed();  // since the snapshot; memory that was freed since is left out

}  // namespace emulator

extern "C" {
void musadata_snapshot_memory();
int musadata_memory_changed();
}
