// What happened, kept until Python takes it: launches in order, faults, and the checker's reports.
#pragma once
#include <string>

#include "faults.h"
#include "launch.h"

namespace emulator {

void record_launch(const std::string& name, const LaunchConfig& config, int error);
void record_fault(const Fault& fault);
void record_report(const Fault& report);
uint64_t reports_generation();  // counts up when the reports are taken

}  // namespace emulator

extern "C" {
// One record per line, fields separated by tabs; valid until the next call. Taking empties the list.
const char* musadata_take_launches();
const char* musadata_take_faults();
const char* musadata_take_reports();
void musadata_configure(int order, uint64_t seed, int poison, int kernels, int checking, int settled);
void musadata_set_fault_descriptor(int descriptor);
void musadata_reset_errors();
}
