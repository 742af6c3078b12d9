"""Finds constructor arguments and inputs on which a mined module runs, and sizes that make a good task.

Entry point: `musadata.mining.search`, which combines examples (`normalize_examples`), guesses by name (`guesses`,
`input_shapes`) and corrections after an error (`repairs`), and then chooses the sizes (`task_sizes`).
Steps in the sandbox: all of them, since each attempt executes the mined code (`attempt_execution`).
"""
