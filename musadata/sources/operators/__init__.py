"""An inventory of PyTorch's operators, each with arguments of the kind and size that models give it."""
