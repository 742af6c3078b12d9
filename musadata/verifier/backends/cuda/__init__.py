"""Candidates on a real NVIDIA device: compiled by nvcc through the small headers, run and timed in the sandbox.

`backend.open_cuda(config)` is the trusted side; `device` is what runs inside the sandbox: the same functions as the
emulator's (`prepare`, `activate`, `configure`, `take_records`), and `timing` measures there.
"""
