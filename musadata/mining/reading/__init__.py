"""Reading the Python files of a tree: their top-level definitions, the names that code uses, and what is left out."""
