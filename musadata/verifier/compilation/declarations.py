"""Finding out where a declaration of CUDA C++ is, and where it ends."""

from collections.abc import Sequence

from musadata.verifier.compilation.lexer import OPENING, Kind, Token, closing_index, skip_space_back

ALIGNMENT = ("alignas", "__align__", "__attribute__", "__builtin_align__")


def in_directive(tokens: Sequence[Token]) -> bool:
    """Whether the tokens end within a `#define` or its like."""
    index = len(tokens) - 1
    while index >= 0:
        token = tokens[index]
        if token.kind is Kind.SPACE and "\n" in token.text and not token.text.startswith(("\\", "/*")):
            return False
        if token.is_sign("#"):
            return True
        index -= 1
    return False


def opens_namespace(tokens: Sequence[Token]) -> bool:
    """Whether a brace after these tokens opens a namespace or an `extern "C"` group."""
    index = skip_space_back(tokens, len(tokens) - 1)
    if index >= 0 and tokens[index].kind is Kind.STRING:
        index = skip_space_back(tokens, index - 1)
        return index >= 0 and tokens[index].is_word("extern")
    while index >= 0 and (tokens[index].kind in (Kind.WORD, Kind.SPACE) or tokens[index].is_sign("::")):
        if tokens[index].is_word("namespace"):
            return True
        index -= 1
    return False


def declaration_end(tokens: Sequence[Token], index: int) -> int:
    """Index of the semicolon that ends the declaration at `index`, or of the last token."""
    while index < len(tokens):
        if tokens[index].is_sign(";"):
            return index
        if tokens[index].kind is Kind.SIGN and tokens[index].text in OPENING:
            index = closing_index(tokens, index)
        index += 1
    return len(tokens) - 1
