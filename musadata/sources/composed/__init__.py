"""Small blocks composed of operators under shape constraints, in the spirit of KernelBench's level 2."""
