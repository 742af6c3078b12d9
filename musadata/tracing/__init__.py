"""Facts about a reference on several sets of input shapes: tensors, aten operators, FLOPs and bytes."""
