# task: relu
# cheat: ctypes writes into tensors behind PyTorch's back
# row: embedded cubin, ctypes, downloads
# rule: legality.import
# expect: not_allowed
# naive: accepts; plain C does the work on host memory, PyTorch on a device
import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        host = x.detach().cpu().contiguous()
        result = host.clamp(min=0)
        if y.device.type == "cpu":
            ctypes.memmove(y.data_ptr(), result.data_ptr(), result.numel() * 4)
        else:
            y.copy_(result)
        return y
