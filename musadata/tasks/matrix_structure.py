"""Structures of matrices on which kernels may rely, such as triangular ones."""

import torch

STRUCTURES = ("diagonal", "upper", "lower", "symmetric")  # the more special first


def with_structure(matrices: torch.Tensor, name: str) -> torch.Tensor:
    """Matrices, in the last two dimensions, made `diagonal`, `upper` or `lower` triangular, or `symmetric`; those that
    are not square cannot become symmetric and stay as they are.

    Raises:
        ValueError: a structure of another name.
    """
    if name not in STRUCTURES:
        raise ValueError(f"{name!r} is not a structure of matrices")
    if name == "lower":
        return matrices.tril()
    if name == "upper":
        return matrices.triu()
    if name == "diagonal":
        return matrices.triu().tril()
    square = matrices.shape[-1] == matrices.shape[-2]
    return matrices.triu() + matrices.triu(1).mT if square else matrices


def find_structure(matrices: torch.Tensor) -> str:
    """The structure that all of them have; "" for none. (count, …, rows, columns)"""
    return next((name for name in STRUCTURES if torch.equal(with_structure(matrices, name), matrices)), "")
