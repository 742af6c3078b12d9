// What a call changes of what was there before it.
#pragma once

namespace emulator {

void keep_memory();
bool kept_memory_changed();  // since it was kept; memory that has been freed since is left out

}  // namespace emulator

extern "C" {
void musadata_keep_memory();
int musadata_kept_memory_changed();
}
