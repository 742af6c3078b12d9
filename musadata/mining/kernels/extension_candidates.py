"""A candidate made of what people wrote: their wrapper, cut out of its repository, and the native code behind it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.mining.kernels.equivalents import Equivalent, write_module
from musadata.mining.kernels.native_slicing import NativeSlice, flatten, slice_native
from musadata.mining.kernels.pairs import Alias, Link, Repository, Use
from musadata.mining.kernels.rebinding import RebuiltTree
from musadata.mining.slicing.class_slicing import Slice, Slicer, Unsliceable
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.parsing import Definition
from musadata.mining.slicing.rewriting import write_definitions
from musadata.sources.protocol import Tree

PAIR = "MusadataPair"  # the class that is appended to a file to call a function of it
LOADER = "from torch.utils.cpp_extension import load_inline"
REGISTERED = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")


@dataclass(frozen=True)
class Extensions:
    """The extensions in one candidate: the links behind each, by the name that the extension has there."""

    links: dict[str, tuple[Link, ...]]

    def all(self) -> list[Link]:
        return [link for links in self.links.values() for link in links]


@dataclass(frozen=True)
class ExtensionCandidate:
    """Python and native code of one wrapper, and the links that it uses, its first one first."""

    source: str
    links: tuple[Link, ...]


def cut_module(tree: Tree, node_name: str, path: str) -> tuple[str, Slice, Slicer]:
    """A class of a tree as `Model`, with everything that it needs, in Python.

    Raises:
        Unsliceable: it needs something that a reference may not have.
        libcst.ParserSyntaxError, SyntaxError: it cannot be written.
    """
    slicer = Slicer(PackageIndex(tree))
    module = slicer.index.parse(path)
    root = module.bindings.get(node_name)
    if not isinstance(root, Definition):
        raise Unsliceable("unresolved_name", node_name)
    cut = slicer.slice(root)
    parsed = {piece.definition.module: slicer.module_of(piece.definition) for piece in cut.pieces}
    text = write_definitions(cut, parsed)
    compile(text, "<slice>", "exec", dont_inherit=True)
    return text, cut, slicer


def cut_reference(tree: Tree, equivalent: Equivalent) -> str:
    """The definitions of a reference: the plain version as `Model`.

    Raises:
        Unsliceable: as `cut_module`; also where the plain version needs native code itself.
    """
    name, built = _rooted(tree, None, equivalent, plain=True)
    text, cut, _ = cut_module(built, name, equivalent.plain_path)
    if any(piece.is_extension for piece in cut.pieces) or REGISTERED.search(text):
        raise Unsliceable("needs_native_code", equivalent.plain.name)
    return text


def cut_candidate(tree: Tree, repository: Repository, equivalent: Equivalent) -> ExtensionCandidate | None:
    """The wrapper as `ModelNew` with its kernels in it; None if it uses none.

    Raises:
        Unsliceable: as `cut_module`.
        TooMuchNativeCode: as `slice_native`.
    """
    name, built = _rooted(tree, repository, equivalent, plain=False)
    text, cut, slicer = cut_module(built, name, equivalent.wrapper_path)
    extensions = _find_extensions(text, cut, slicer, repository, equivalent)
    if not extensions.links:
        return None
    body = re.sub(r"\bModel\b", "ModelNew", text)
    for name, links in extensions.links.items():
        native = slice_native(repository, links)
        block = _write_extension(name, native, *flatten(repository, native))
        body = _place(body, name, block)
    return ExtensionCandidate(body.rstrip() + "\n", tuple(extensions.all()))


def _rooted(tree: Tree, repository: Repository | None, equivalent: Equivalent, plain: bool) -> tuple[str, Tree]:
    """The class to cut, and the tree that holds it."""
    node, path = (equivalent.plain, equivalent.plain_path) if plain else (equivalent.wrapper, equivalent.wrapper_path)
    text = (equivalent.plain_text if plain else "") + write_module(PAIR, node, equivalent.shared, node.name)
    additions = {} if equivalent.is_module else {path: text}
    if repository is None:
        return (node.name if equivalent.is_module else PAIR), _Extended(tree, additions)
    return (node.name if equivalent.is_module else PAIR), RebuiltTree(tree, repository, additions)


class _Extended:
    """A tree with text appended to some files."""

    def __init__(self, tree: Tree, additions: dict[str, str]):
        self._tree, self._additions = tree, additions

    def paths(self) -> list[str]:
        return self._tree.paths()

    def read(self, path: str) -> bytes:
        return self._tree.read(path) + self._additions.get(path, "").encode()


def _find_extensions(
    text: str, cut: Slice, slicer: Slicer, repository: Repository, equivalent: Equivalent
) -> Extensions:
    found: dict[str, tuple[Link, ...]] = {}
    for piece in cut.pieces:
        if piece.is_extension:
            path = slicer.module_of(piece.definition).path
            alias = _alias(repository, path, piece.definition.names[0])
            names = dict.fromkeys(re.findall(rf"\b{re.escape(piece.name)}\.(\w+)", text))
            links = _links(repository, equivalent, alias, names) if alias else []
            if not links:
                raise Unsliceable("unlinked_extension", piece.name)
            found[piece.name] = tuple(links)
    registered = dict.fromkeys(REGISTERED.findall(text))
    for namespace in dict.fromkeys(space for space, _ in registered):
        names = dict.fromkeys(name for space, name in registered if space == namespace)
        links = _links(repository, equivalent, Alias(f"torch.ops.{namespace}"), names)
        if links:
            found[f"torch.ops.{namespace}"] = tuple(links)
    return Extensions(found)


def _alias(repository: Repository, path: str, name: str) -> Alias | None:
    """What a name that an extension is built under stood for in the repository."""
    known = {alias.replace(".", "__"): value for alias, value in repository.aliases(path).items()}
    if name in known:
        return known[name]
    single = known.get(name.removesuffix("_extension"))
    return Alias(single.target.partition(":")[0]) if single else None


def _links(
    repository: Repository, equivalent: Equivalent, alias: Alias, names: Sequence[str] | dict[str, None]
) -> list[Link]:
    found = []
    for name in names:
        use = Use(equivalent.wrapper, equivalent.wrapper_path, alias.target, name, alias.extension)
        link = repository.link(use)
        if link is None:
            raise Unsliceable("unlinked_binding", f"{alias.target}.{name}")
        found.append(link)
    return found


def _write_extension(name: str, native: NativeSlice, host: str, device: str) -> str:
    """The statements that build an extension under a name. `torch.ops` are registered rather than named."""
    registered = name.startswith("torch.ops.")
    stem = name.removeprefix("torch.ops.").lower().strip("_") or "kernels"
    arguments = [f'name="{stem}_kernels"']
    parts = []
    for role, text in (("cpp", host), ("cuda", device)):
        if text:
            parts.append(f"{stem}_{role} = {_quoted(text)}")
            arguments.append(f"{role}_sources={stem}_{role}")
        elif role == "cpp":
            arguments.append('cpp_sources=""')
    if native.functions:
        arguments.append(f"functions={list(native.functions)!r}".replace("'", '"'))
    if registered:
        arguments.append("is_python_module=False")
    call = "load_inline(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    parts.append(call if registered else f"{name} = {call}")
    return "\n\n".join(parts)


def _quoted(text: str) -> str:
    if '"""' not in text and not text.endswith(("\\", '"')):
        return f'r"""\n{text}\n"""'
    return repr(text)


def _place(body: str, name: str, block: str) -> str:
    """The program with an extension built where the slice left a name for it, or after the imports."""
    if LOADER not in body:
        head, _, rest = body.partition("\n\n\n")
        body = f"{head}\n{LOADER}\n\n\n{rest}"
    left = re.search(rf"^{re.escape(name)} = None$", body, re.MULTILINE)
    if left is not None:
        return body[: left.start()] + block + body[left.end() :]
    head, _, rest = body.partition("\n\n\n")
    return f"{head}\n\n{block}\n\n\n{rest}"
