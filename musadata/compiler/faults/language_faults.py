"""Faults of the language and the interface: names, types, bindings, returns."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from musadata.compiler.faults.catalogue import WORDS, fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite, first
from musadata.compiler.ir.code import Function, Method, Name, declared_in


@fault
def undeclared_name(context: FaultContext) -> str | None:
    def edit(site: KernelSite) -> Function | None:
        foreign = sorted({name for name in _on_the_host(context) if name not in site.names})
        names = {"total": context.pick(foreign) or "num_elements", "blockIdx.x": "blockId.x"}
        found = (context.changed(site, partial(_renamed, old=old, new=new)) for old, new in names.items())
        return next(filter(None, found), None)

    return context.in_some_kernel(edit)


def _on_the_host(context: FaultContext) -> list[str]:
    """Variables that the host has for launches and sizes."""
    setup = tuple(emitted.host.setup for emitted in context.candidate.kernels)
    return [*context.candidate.read_sizes, *declared_in(setup)]


def _renamed(node: Any, old: str, new: str) -> Name | None:
    return Name(new) if node == Name(old) else None


@fault
def misspelt_intrinsic(context: FaultContext) -> str | None:
    misspelt = WORDS["misspelt_intrinsic"]
    right = [name for name in misspelt if re.search(rf"\b{name}\(", context.source)]
    chosen = context.pick(right)
    return None if chosen is None else re.sub(rf"\b{chosen}\(", f"{misspelt[chosen]}(", context.source, count=1)


@fault
def wrong_signature(context: FaultContext) -> str | None:
    start = context.source.find("cpp_source = ")
    last = context.source.find(");", start)
    if start < 0 or last < 0:
        return None
    declared = context.source[start:last]
    added = [one for one in WORDS["wrong_signature"] if not re.search(rf"\b{one.split()[1]}\b", declared)]
    return f"{context.source[:last]}, {context.random.choice(added)}{context.source[last:]}" if added else None


@fault
def renamed_parameters(context: FaultContext) -> str | None:
    start = context.source.index("class ModelNew")
    head, model = context.source[:start], context.source[start:]
    held = [name for name in re.findall(r"self\.(\w+) = nn\.\w+\(", model) if f"self.{name}." in model]
    name = context.pick(held)
    return None if name is None else head + re.sub(rf"\bself\.{name}\b", f"self.{name}_layer", model)


@fault
def hard_coded_size(context: FaultContext) -> str | None:
    def varies(match: re.Match[str]) -> bool:
        return len(set(context.values_of(match[2]) or ())) > 1

    def fixed(match: re.Match[str]) -> str:
        return f"{match[1]}{(context.values_of(match[2]) or (1,))[0]};"

    return context.replace_one(context.source, r"(const int (\w+) = )\w+\.size\(\d+\);", fixed, varies)


@fault
def missing_return(context: FaultContext) -> str | None:
    head, mark, tail = context.source.rpartition("        return ")
    return f"{head}        {tail}" if mark and "extension." in tail else None


@fault
def swapped_arguments(context: FaultContext) -> str | None:
    def swapped(site: KernelSite) -> str | None:
        buffers = list({buffer.name: buffer for buffer in site.emitted.kernel.inputs}.values())
        host = site.emitted.host
        pointers = tuple(Method(Name(buffer.name), "data_ptr<float>") for buffer in buffers[:2])
        if len(buffers) < 2 or buffers[0].shape == buffers[1].shape or host.arguments[:2] != pointers:
            return None
        return context.with_launch(site, replace(host, arguments=(*pointers[::-1], *host.arguments[2:])))

    return first(map(swapped, context.sites()))


@fault
def missing_contiguous(context: FaultContext) -> str | None:
    arguments = [item["name"] for item in context.candidate.graph.arguments if item["rank"] > 1]
    lines = [f"    {name} = {name}.contiguous();\n" for name in arguments]
    line = context.pick([line for line in lines if line in context.source])
    return None if line is None else context.source.replace(line, "", 1)
