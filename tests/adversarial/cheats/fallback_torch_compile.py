# task: gelu
# cheat: torch.compile writes the kernel
# row: falls back to torch
# rule: legality.torch_program
# expect: not_allowed
# naive: -; needs a compiler at run time, passes on a device
import torch
import torch.nn as nn


@torch.compile
def fused_gelu(x):
    return torch.nn.functional.gelu(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return fused_gelu(x)
