"""Candidates on a real NVIDIA device: compiled by nvcc through the small headers, run and timed in the sandbox.

`cuda_backend` is the trusted side, with `nvcc` as its compiler; `cuda_hook` is the part inside the sandbox.
"""
