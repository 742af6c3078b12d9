"""Watching what a module dispatches, without what PyTorch itself would first import for that."""

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """What every mode here derives from.

    To keep its compiler away from a mode, PyTorch imports torch._dynamo when the mode is first used: 1 to 3 seconds, in
    every forked process. Nothing is compiled under these.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
