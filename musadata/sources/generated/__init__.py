"""Random graphs through NNSmith's library, and our printer that writes them as a person would."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # NNSmith warns on import that graphs will not be drawn without pygraphviz
    import nnsmith.util  # noqa: F401
