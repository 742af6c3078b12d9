"""Removes from a mined reference the code that its own arguments never execute, and what nothing reads after that.

Entry point: `proving.prune_and_prove`, a list of edits and a loop that takes what behaves as the original does, bit for
bit, for several sizes of the inputs. `execution_watch` observes an instrumented copy, `constant_conditions` decides
which conditions are constant, `branches`, `idle_methods` and `unused` propose what may go.
Steps in the sandbox: `proving` and the instrumented copy. All other files only read and write text.
"""
