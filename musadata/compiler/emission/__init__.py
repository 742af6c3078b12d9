"""From kernels to readable CUDA C++ and the Python module around it.

`candidate.build_candidate` is the way in: it lowers a graph, and prints each kernel in the schedule that a plan
(`schedule_plan`) chooses: `pointwise`, `rowwise` or `tiled`.
"""
