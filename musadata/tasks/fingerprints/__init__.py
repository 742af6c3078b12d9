"""Fingerprint sets of benchmarks: hashes of graphs and of token sequences, never the benchmark's code.

Made from a checkout by `python -m musadata.tasks.fingerprints`.
"""
