"""What a repository shows of its own modules while its tests and examples run. Runs inside the sandbox.

`musadata.mining.slicing.harvested` decides which files run.
"""
