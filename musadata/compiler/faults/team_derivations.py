"""What faults of threads that work together do: which thread misses what of which other one."""

from musadata.compiler.emission.schedule_plan import extent_hint
from musadata.compiler.faults.derivation import Derivation, Edit, count_of, derives
from musadata.compiler.faults.thread_walk import arguments_of
from musadata.compiler.ir.code import Assign


@derives("missing_barrier")
def _no_barrier(edit: Edit) -> Derivation | None:
    threads, right = edit.emitted.threads[0], edit.parts[0]
    if isinstance(right, str):
        if "partial[threadIdx.x] = value" in right:
            half = threads // 2
            told = (
                f"In the first round of the tree, with stride {half}, thread 0 reads partial[{half}], which thread "
                f"{half} writes. That is a thread of another warp (warp {half // 32}), and nothing makes warp 0 wait "
                "for it: it may read what an earlier reduction, or nobody, left there."
            )
            why = f"after `__syncthreads()` all {threads} values are in `partial` before anybody reads one of them"
        else:
            warps = threads // 32
            told = (
                f"Lane 0 of each of the {warps} warps writes partial[warp], and then lanes 0 to {warps - 1} of every "
                f"warp read all {warps}. Warp 0 may be there before warp {warps - 1} has written: it adds up what was "
                "in shared memory before."
            )
            why = (
                f"after `__syncthreads()` the results of all {warps} warps are in `partial` before any lane reads them"
            )
        return Derivation(told, why) if threads > 32 else None
    return _no_barrier_in_tile(edit)


def _no_barrier_in_tile(edit: Edit) -> Derivation | None:
    sides = edit.emitted.threads
    if len(sides) < 2:
        return None
    last = sides[1] - 1
    warp = last * sides[0] // 32
    told = (
        f"Every thread of the block of {sides[0]} x {sides[1]} writes its part of the tiles, and reads what others "
        f"wrote. Row {last} is written by threads of warp {warp}, and warp 0 reads from it without waiting: depending "
        "on who comes first, it multiplies elements of this step or of the one before."
    )
    why = "one barrier stands between writing the tiles and reading them, and one between reading and writing them anew"
    return Derivation(told, why)


@derives("partial_result_stored")
def _own_results(edit: Edit) -> Derivation | None:
    gone = edit.gone(Assign)
    if gone is None:
        return None
    sharing = 32 if str(gone.value).startswith("warp_") else edit.emitted.threads[0]
    counts = ((one, max(extent_hint(stage.axes, one) for stage in edit.emitted.kernel.stages)) for one in edit.sizes)
    sizes, count = next(((one, found) for one, found in counts if found > 1), ({}, 0))
    if not count:
        return None
    own = -(-count // sharing)
    part = f"each of them has about {own}" if own > 1 else "each of them has one at the most"
    told = (
        f"{edit.at(sizes)}{sharing} threads share the {count} values of one result, so that {part}. "
        f"Without `{gone.target} = {gone.value};` each thread goes on with the `{gone.target}` of its own part, and "
        "they disagree."
    )
    return Derivation(
        told, f"`{gone.value}` combines the parts of all {sharing} threads and gives each the same result"
    )


@derives("wrong_shuffle_range")
def _half_a_warp(edit: Edit) -> Derivation:
    sums = "of 32 ones, the sum would be 16 in every lane"
    example = (
        sums if "value += " in edit.parts[0] else "a value in lane 20 that decides the result never comes to lane 0"
    )
    told = (
        "Offsets 8, 4, 2 and 1 connect lane l with those lanes alone that differ from it in the lower four bits of "
        "their number: lanes 0 to 15 combine their 16 values, lanes 16 to 31 theirs, and the two halves never meet: "
        f"{example}. Where the halves differ, lanes 0 and 16 go on with different results."
    )
    why = "with offset 16 first, each lane of one half gets its partner of the other: 16, 8, 4, 2, 1 reach all 32"
    return Derivation(told, why)


@derives("wrong_tree_start")
def _quarter(edit: Edit) -> Derivation | None:
    threads = edit.emitted.threads[0]
    if threads < 4:
        return None
    told = (
        f"A block has {threads} threads. The tree begins with stride {threads // 4}: it adds partial[{threads // 4}] "
        f"to partial[{threads // 2 - 1}] to the first {threads // 4}, and partial[{threads // 2}] to "
        f"partial[{threads - 1}], which half of the threads wrote, is never read."
    )
    return Derivation(
        told, f"with stride {threads // 2} first, each of the {threads} elements is read once on the way to partial[0]"
    )


@derives("scan_without_carry")
def _alone(edit: Edit) -> Derivation | None:
    gone = edit.gone(Assign)
    piece = edit.emitted.threads[0]
    lengths = [max(extent_hint(stage.axes, sizes) for stage in edit.emitted.kernel.stages) for sizes in edit.sizes]
    place = next((n for n, length in enumerate(lengths) if length > piece), None)
    if gone is None or place is None:
        return None
    length = lengths[place]
    told = (
        f"{edit.at(edit.sizes[place])}a row has {length} elements, and a block of {piece} threads goes over it in "
        f"pieces of {piece}. Elements 0 to {piece - 1} are right. For element {piece}, the first of the second piece, "
        "`carry` still has its start value, so that all before it is missing, and likewise in all "
        f"{-(-length // piece) - 1} further pieces."
    )
    return Derivation(
        told,
        f"`{gone.target} {gone.sign} {gone.value};` leaves in `carry` what all pieces so far come to, for the next one",
    )


@derives("lost_additions")
def _lost_updates(edit: Edit) -> Derivation | None:
    node = edit.gone(Assign, side=1)
    if node is None:
        return None
    name = getattr(getattr(node.target, "array", None), "name", "")
    for sizes in edit.sizes:
        shape, known = edit.shape(name, sizes), arguments_of(edit.emitted, sizes)
        total = known.get("total")
        if shape is None or total is None:
            continue
        places = count_of(shape)
        crowd = (
            f"{total} threads add to {places} elements, so that at least {total - places} of them share one with "
            "another"
            if total > places
            else "two threads share an element wherever an index comes twice"
        )
        told = (
            f"{edit.at(sizes)}{crowd}. `+=` reads, adds and writes in three steps: two threads that both read 5 and "
            "add 1 and 2 write 6 and 7, and one of the additions is lost. Which one depends on their order, so "
            "results change from run to run."
        )
        return Derivation(
            told, "`atomicAdd` reads, adds and writes as one step, so that each addition finds the result of the others"
        )
    return None
