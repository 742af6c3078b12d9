"""Random graphs from NNSmith, printed as readable PyTorch code."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # NNSmith warns on import that graphs will not be drawn without pygraphviz
    import nnsmith.util  # noqa: F401
