"""Faults of the language and the interface: names, types, bindings, returns."""

from dataclasses import replace
from typing import Any

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite, first
from musadata.compiler.ir.code import (
    Assign,
    Declare,
    Function,
    Method,
    Name,
    code,
)


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
