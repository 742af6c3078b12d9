"""From a tree of files to drafts of tasks and kernels.

Entry point: `miner.Miner`. Rooms: `slicing` (cut classes out), `arguments` (find their arguments), `pruning` (remove
unused code), `kernels` (link wrappers to CUDA kernels). `search` runs arguments and pruning inside the sandbox.
"""
