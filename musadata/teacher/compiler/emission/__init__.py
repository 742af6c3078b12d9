"""From kernels to readable CUDA C++ and the Python module around it."""
