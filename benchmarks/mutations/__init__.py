"""Faults made mechanically in honest kernels: what they are, what survives them, and what cannot matter."""
