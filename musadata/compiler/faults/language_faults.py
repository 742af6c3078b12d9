"""Faults of the language and the interface: names, types, bindings, returns."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import WORDS, fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite, first
from musadata.compiler.ir.code import (
    Assign,
    Declare,
    Function,
    Method,
    Name,
    code,
    declared_in,
)


@fault
def undeclared_name(context: FaultContext) -> Candidate | None:
    def edit(site: KernelSite) -> Function | None:
        foreign = sorted({name for name in _on_the_host(context) if name not in site.names})
        names = {"total": context.pick(foreign) or "num_elements", "blockIdx.x": "blockId.x"}
        found = (context.changed(site, partial(_renamed, old=old, new=new)) for old, new in names.items())
        return next(filter(None, found), None)

    return context.in_some_kernel(edit)


def _on_the_host(context: FaultContext) -> list[str]:
    """Variables that the host has for launches and sizes."""
    setup = tuple(emitted.host.setup for emitted in context.candidate.kernels)
    return [*context.candidate.host.sizes, *declared_in(setup)]


def _renamed(node: Any, old: str, new: str) -> Name | None:
    return Name(new) if node == Name(old) else None


@fault
def wrong_signature(context: FaultContext) -> Candidate | None:
    host = context.candidate.host
    declared = {*(buffer.name for _, buffer in host.parameters), *host.numbers, *host.lists}
    added = [one for one in WORDS["wrong_signature"] if one.split()[1] not in declared]
    if not added:
        return None
    declaration = context.candidate.module.declaration
    return context.with_module(declaration=declaration.replace(");", f", {context.random.choice(added)});"))


@fault
def wrong_pointer_type(context: FaultContext) -> Candidate | None:
    kind = context.random.choice(WORDS["wrong_pointer_type"])

    def of_another_type(node: Any) -> Method | None:
        is_float = isinstance(node, Method) and node.function == "data_ptr<float>"
        return replace(node, function=f"data_ptr<{kind}>") if is_float else None

    return context.replace_anywhere(of_another_type)


@fault
def wrong_binding(context: FaultContext) -> Candidate:
    plain = context.candidate.module.function.removesuffix("_cuda")
    return context.with_module(function=f"{plain}{context.random.choice(WORDS['wrong_binding'])}")


@fault
def renamed_parameters(context: FaultContext) -> Candidate | None:
    module = context.candidate.module
    read = module.head + module.statements
    held = [name for name in re.findall(r"self\.(\w+) = nn\.\w+\(", module.head) if f"self.{name}." in read]
    name = context.pick(held)
    if name is None:
        return None

    def renamed(text: str) -> str:
        return re.sub(rf"\bself\.{name}\b", f"self.{name}_layer", text)

    return context.with_module(head=renamed(module.head), arguments=tuple(map(renamed, module.arguments)))


@fault
def hard_coded_size(context: FaultContext) -> Candidate | None:
    def fixed(node: Any) -> Declare | None:
        match node:
            case Declare("int", ((Name(name), Method(Name(), "size")),), "const ") if (
                len(set(known := context.values_of(name) or ())) > 1
            ):
                return replace(node, variables=((Name(name), code(known[0])),))
        return None

    return context.replace_anywhere(fixed)


@fault
def swapped_arguments(context: FaultContext) -> Candidate | None:
    def swapped(site: KernelSite) -> Candidate | None:
        buffers = list({buffer.name: buffer for buffer in site.emitted.kernel.inputs}.values())
        host = site.emitted.host
        pointers = tuple(Method(Name(buffer.name), "data_ptr<float>") for buffer in buffers[:2])
        if len(buffers) < 2 or buffers[0].shape == buffers[1].shape or host.arguments[:2] != pointers:
            return None
        return context.with_launch(site, replace(host, arguments=(*pointers[::-1], *host.arguments[2:])))

    return first(map(swapped, context.sites()))


@fault
def missing_contiguous(context: FaultContext) -> Candidate | None:
    tensors = [Name(item["name"]) for item in context.candidate.graph.arguments if item["rank"] > 1]
    made = [Assign(one, "=", Method(one, "contiguous")) for one in tensors]
    *others, host = context.candidate.parts
    assert isinstance(host, Function)
    statement = context.pick([one for one in made if one in host.body])
    left = tuple(one for one in host.body if one != statement)
    return None if statement is None else context.with_parts((*others, replace(host, body=left)))
