# task: softmax
# cheat: calls torch.nn.functional instead of writing a kernel
# row: falls back to torch
# rule: legality.compute
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=-1)
