"""Which sizes of a reference are free, which are tied to each other, and which its parameters and literals fix.

From that come the two sizes of a task: proof sizes, small, at which any backend shows that a kernel is right, and the
measure size, which keeps a data-centre GPU busy and shows that it is fast. References run on fake tensors, which have
shapes and no memory, so that nothing large is ever allocated. That executes foreign code: inside the sandbox only.
"""
