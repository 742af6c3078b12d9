"""A small honest compiler from aten graphs to readable CUDA C++.

    capturing (in the sandbox) -> ir (graph, formulas, values, loops) -> lowering (values, loops, fusion)
        -> emission (schedules, text) -> faults -> seeding, prose

`musadata.teacher.compiler_teacher` is the way in; `seeding` decides which schedule or which fault a sample gets.
"""
