"""The embedded teacher: a small honest compiler from aten graphs to readable CUDA C++.

    capture (in the sandbox) -> graph -> lowering (values and loops) -> kernels (fusion) -> emission (schedules) -> text

`CompilerTeacher` is the way in; `seeding` decides which schedule or which fault a sample gets.
"""

from musadata.teacher.compiler.teacher import PRELOAD, VERSION, CompilerTeacher

__all__ = ["PRELOAD", "VERSION", "CompilerTeacher"]
