"""Profiling rows: counters of a kernel, and a diagnosis whose every figure follows from them."""
