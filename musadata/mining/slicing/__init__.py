"""Cuts an `nn.Module` class out of a package, with every definition that it needs, as one readable file.

Entry points: `drafting.draft_file` (all modules of one file as drafts), `class_slicing.Slicer` (one class).
Names are resolved with `ast` on the files as they are; the result is rewritten with libcst.
Steps in the sandbox: none here. `drafting` calls `mining.search` in the sandbox to find arguments for the class.
"""
