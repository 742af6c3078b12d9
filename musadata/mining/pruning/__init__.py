"""Removes from a mined reference the code that its own arguments never execute, and what nothing reads after that.

Entry point: `proving.prune_and_prove`. It executes an instrumented copy (`execution_watch`), decides which conditions
are constant (`constant_conditions`; `influence`: what inputs decide) and which code is reachable (`reachability`),
removes the rest (`branches`, `unused`), and keeps the result only if it gives bit-identical outputs.
Steps in the sandbox: `proving` and the instrumented copy. All other files only read and write text.
"""
