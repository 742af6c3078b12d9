"""Verified training data for models that write GPU kernels."""
