"""What the sentences of an analysis claim, and whether it is so.

`steps` reads sentences and expressions out of an answer, `expressions` evaluates an expression on the facts (the traces
of a task, and of a program its `launches` and code), and `judging` says what follows. Whoever wrote a sentence says in
an expression what it claims; nothing here reads prose. What has no expression, or one that cannot be evaluated, is not
checked and never flagged. `evaluation` interprets any text in bounded time.
"""
