"""A candidate from a repository's own code: the wrapper, cut out of its files, and the native code that it calls."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.mining.kernels.equivalents import Equivalent, write_module
from musadata.mining.kernels.extension_names import Alias
from musadata.mining.kernels.native_slicing import NativeSlice, flatten, slice_native
from musadata.mining.kernels.pairs import Link, Linker, Use
from musadata.mining.kernels.rebinding import ExtendedTree, RebuiltTree
from musadata.mining.reading.parsing import Definition
from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import rejecting_unwritable, write_slice
from musadata.mining.slicing.pieces import Slice
from musadata.sources.protocol import Tree

PAIR = "MusadataPair"  # the module that is appended to a file to call one of its functions
LOADER = "from torch.utils.cpp_extension import load_inline"
REGISTERED = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")


@dataclass(frozen=True)
class ExtensionCandidate:
    """Python and native code of one wrapper, and its links in order of use."""

    source: str
    links: tuple[Link, ...]


def cut_module(tree: Tree, node_name: str, path: str) -> tuple[str, Slice, Slicer]:
    """A class of a tree, renamed to `Model`, with all the Python code that it needs.

    Raises:
        Unsliceable: it needs something that a reference may not have, or cannot be written.
    """
    slicer = Slicer(PackageIndex(tree))
    with rejecting_unwritable():
        root = slicer.index.parse(path).bindings.get(node_name)
    if not isinstance(root, Definition):
        raise Unsliceable("unresolved_name", node_name)
    return *write_slice(slicer, root), slicer


def cut_reference(tree: Tree, equivalent: Equivalent) -> str:
    """The definitions of a reference: the plain version as `Model`.

    Raises:
        Unsliceable: as `cut_module`; also where the plain version needs native code itself.
    """
    unbuilt = ExtendedTree(tree, _additions(equivalent, plain=True))
    text, cut, _ = cut_module(unbuilt, *_root(equivalent, plain=True))
    if any(piece.is_extension for piece in cut.pieces) or REGISTERED.search(text):
        raise Unsliceable("needs_native_code", equivalent.plain.name)
    return text


def cut_candidate(
    tree: Tree, linker: Linker, equivalent: Equivalent, *, backward: bool = False
) -> ExtensionCandidate | None:
    """The wrapper as `ModelNew` with its kernels in it, `backward` with those of its gradient; None if it uses none.

    Raises:
        Unsliceable: as `cut_module`.
        TooMuchNativeCode: as `slice_native`.
    """
    built = RebuiltTree(tree, linker.repository, _additions(equivalent, plain=False), backward=backward)
    text, cut, slicer = cut_module(built, *_root(equivalent, plain=False))
    extensions = _find_extensions(text, cut, slicer, linker, equivalent)
    if not extensions:
        return None
    body = re.sub(r"\bModel\b", "ModelNew", text)
    for name, links in extensions.items():
        native = slice_native(linker.repository, links)
        undefined = sorted(linker.repository.undefined)
        block = _write_extension(name, native, *flatten(linker.repository, native), undefined)
        body = _place(body, name, block)
    return ExtensionCandidate(body.rstrip() + "\n", tuple(link for links in extensions.values() for link in links))


def _root(equivalent: Equivalent, *, plain: bool) -> tuple[str, str]:
    """The class to cut out, and its file: a module itself, or the one that `_additions` puts around a function."""
    node, path = (equivalent.plain, equivalent.plain_path) if plain else (equivalent.wrapper, equivalent.wrapper_path)
    return node.name if equivalent.is_module else PAIR, path


def _additions(equivalent: Equivalent, *, plain: bool) -> dict[str, str]:
    """Text to append to the file of a function, so that it holds a module that calls the function."""
    node, path = (equivalent.plain, equivalent.plain_path) if plain else (equivalent.wrapper, equivalent.wrapper_path)
    text, names = (equivalent.plain_text, equivalent.plain_names) if plain else ("", ())
    if equivalent.is_module:
        return {path: text} if text else {}
    return {path: text + write_module(PAIR, node, names or equivalent.shared, node.name)}


def _find_extensions(
    text: str, cut: Slice, slicer: Slicer, linker: Linker, equivalent: Equivalent
) -> dict[str, tuple[Link, ...]]:
    """The extensions in a candidate: the links behind each, by the name that the extension has there."""
    found: dict[str, tuple[Link, ...]] = {}
    for piece in cut.pieces:
        if piece.is_extension:
            path = slicer.module_of(piece.definition).path
            alias = _alias(linker, path, piece.definition.names[0])
            used = re.findall(rf"(?<![\w.]){re.escape(piece.name)}\.(\w+(?:\.\w+)*)", text)
            names = dict.fromkeys(map(linker.bound_name, used))
            links = _links(linker, equivalent, alias, names) if alias else []
            if not links:
                raise Unsliceable("unlinked_extension", piece.name)
            found[piece.name] = tuple(links)
    registered = dict.fromkeys(REGISTERED.findall(text))
    for namespace in dict.fromkeys(space for space, _ in registered):
        names = dict.fromkeys(name for space, name in registered if space == namespace)
        links = _links(linker, equivalent, Alias(f"torch.ops.{namespace}"), names)
        if links:
            found[f"torch.ops.{namespace}"] = tuple(links)
    return found


def _alias(linker: Linker, path: str, name: str) -> Alias | None:
    """What the name of a built extension meant in the repository."""
    known = {alias.replace(".", "__"): value for alias, value in linker.repository.aliases(path).items()}
    if name in known:
        return known[name]
    single = known.get(name.removesuffix("_extension"))
    return Alias(single.target.partition(":")[0], single.extension) if single else None


def _links(linker: Linker, equivalent: Equivalent, alias: Alias, names: Sequence[str] | dict[str, None]) -> list[Link]:
    found = []
    for name in names:
        use = Use(equivalent.wrapper, equivalent.wrapper_path, alias.target, name, alias.extension)
        link = linker.link(use)
        if link is None:
            raise Unsliceable("unlinked_binding", f"{alias.target}.{name}")
        found.append(link)
    return found


def _write_extension(name: str, native: NativeSlice, host: str, device: str, undefined: Sequence[str]) -> str:
    """The statements that build an extension under a name. `torch.ops` are registered rather than named.

    Args:
        undefined: macros of PyTorch that the repository's build removes, without which half types do not convert.
    """
    registered = name.startswith("torch.ops.")
    stem = name.removeprefix("torch.ops.").lower().strip("_") or "kernels"
    arguments = [f'name="{stem}_kernels"']
    parts = []
    for role, text in (("cpp", host), ("cuda", device)):
        if text:
            plain = '"""' not in text and not text.endswith(("\\", '"'))
            quoted = f'r"""\n{text}\n"""' if plain else repr(text)
            parts.append(f"{stem}_{role} = {quoted}")
            arguments.append(f"{role}_sources={stem}_{role}")
        elif role == "cpp":
            arguments.append('cpp_sources=""')
    if native.functions:
        arguments.append(f"functions={list(native.functions)!r}".replace("'", '"'))
    if undefined and re.search(r"half|bfloat16", device):
        arguments.append(f"extra_cuda_cflags={[f'-U{macro}' for macro in undefined]!r}".replace("'", '"'))
    if registered:
        arguments.append("is_python_module=False")
    call = "load_inline(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    parts.append(call if registered else f"{name} = {call}")
    return "\n\n".join(parts)


def _place(body: str, name: str, block: str) -> str:
    """Insert the statements that build an extension: at its placeholder, or after the imports."""
    if LOADER not in body:
        head, _, rest = body.partition("\n\n\n")
        body = f"{head}\n{LOADER}\n\n\n{rest}"
    left = re.search(rf"^{re.escape(name)} = None$", body, re.MULTILINE)
    if left is not None:
        return body[: left.start()] + block + body[left.end() :]
    head, _, rest = body.partition("\n\n\n")
    return f"{head}\n\n{block}\n\n\n{rest}"
