"""Small blocks composed of operators under shape constraints, similar to KernelBench's level 2."""
