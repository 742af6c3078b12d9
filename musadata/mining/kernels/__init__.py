"""Links Python wrappers to the CUDA kernels that they call, and to a plain PyTorch version of the same computation.

Entry point: `kernel_rows.KernelMiner.rows` (the rows of `kernels/` of one file).
`repository` indexes a tree, `pairs` follows a call into native code, `equivalents` finds the PyTorch version,
and `extension_candidates` writes wrapper and native code as one candidate.
Steps in the sandbox: only the argument search for the PyTorch version (`mining.search.search_arguments`).
"""
