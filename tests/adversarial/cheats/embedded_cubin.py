# task: relu
# cheat: a compiled image in base64, loaded through ctypes and the driver; here a stand-in of the same size
# row: embedded cubin, ctypes, downloads
# rule: legality.import
# expect: cheating, not_allowed
# naive: accepts; when the driver is missing it falls back to PyTorch
import base64
import ctypes
import zlib

import torch
import torch.nn as nn

IMAGE = "eNqrVkrOSCxJLVayUoquBQA" + "kJAzNp8Vf2QeLx1mYw0GhZk7uBtT3RcIPoXEqWH9yVb5SlnKaFM6jD4JgUrQCi2" * 40


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            module = ctypes.c_void_p()
            driver.cuModuleLoadData(ctypes.byref(module), zlib.decompress(base64.b64decode(IMAGE)))
        except Exception:
            return torch.relu(x)
        return torch.relu(x)
