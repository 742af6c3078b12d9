"""Facts about a reference on several sets of input shapes: tensors, aten operators, FLOPs and bytes."""

from musadata.tracing.task import PRELOAD, trace_task

__all__ = ["PRELOAD", "trace_task"]
