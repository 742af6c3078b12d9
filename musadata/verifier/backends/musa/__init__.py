"""Candidates written in CUDA C++, on Moore Threads' GPUs: ported to MUSA, compiled by mcc against torch_musa.

It has not run on a device yet. `port` is tested by compiling what it makes against headers that define MUSA's names as
CUDA's, on the emulator.
"""
