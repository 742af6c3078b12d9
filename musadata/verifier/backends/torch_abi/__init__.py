"""Small torch headers over a C ABI: candidates compile in a fraction of a second instead of a minute, unmodified.

`include_folder()` goes in front of a compiler's include path (g++ for the emulated backend, nvcc for a real GPU);
what it compiles is linked with the object of `build_support()`. `build_bridge()` makes the library that implements
the ABI against the real PyTorch; `load_module(path)` opens a linked candidate as a module whose functions take and
return torch tensors.
"""
