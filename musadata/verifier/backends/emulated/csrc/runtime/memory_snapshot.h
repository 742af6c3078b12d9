// Whether a call changes memory that was there before it.
#pragma once
#include <string>

namespace emulator {

void snapshot_memory();
std::string changed_memory();  // since the snapshot; memory that was freed since is left out

}  // namespace emulator

extern "C" {
void musadata_snapshot_memory();
const char* musadata_changed_memory();
}
