"""A small compiler from aten graphs to readable CUDA C++, with schedules to choose from and faults to seed.

    capturing (in the sandbox) -> ir (graph, formulas, values, loops) -> lowering (values, loops, fusion)
        -> emission (schedules, text) -> faults -> candidate_set

`musadata.teacher.compiler_teacher` is the way in; `candidate_set` decides which schedule or which fault a sample gets.
"""
