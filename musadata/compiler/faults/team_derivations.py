"""What faults of threads that work together do: which thread misses what of which other one."""

from collections.abc import Mapping

from musadata.compiler.emission.schedule_plan import extent_hint
from musadata.compiler.faults.derivation import Edit, Figures, count_of, derives
from musadata.compiler.faults.thread_walk import arguments_of
from musadata.compiler.ir.code import Assign, Element, Name


@derives("missing_barrier")
def _no_barrier(edit: Edit) -> Figures:
    sides, right = edit.emitted.threads, edit.parts[0]
    threads, warps = sides[0], sides[0] // 32
    if not isinstance(right, str):
        last = sides[-1] - 1
        tiles = {"form": "barrier_of_tiles", "sides": sides, "last": last, "warp": last * threads // 32}
        return tiles if len(sides) > 1 else None
    if warps < 2:
        return None
    if "partial[threadIdx.x] = value" in right:
        return {"form": "barrier_of_a_tree", "threads": threads, "half": threads // 2, "warp": warps // 2}
    return {"form": "barrier_of_warps", "warps": warps, "last": warps - 1}


@derives("partial_result_stored")
def _own_results(edit: Edit) -> Figures:
    gone = edit.gone(Assign)
    if gone is None:
        return None
    sharing = 32 if str(gone.value).startswith("warp_") else edit.emitted.threads[0]
    for sizes in edit.sizes:
        count = _longest(edit, sizes)
        if count > 1:
            return {"at": edit.at(sizes), "sharing": sharing, "count": count, "gone": gone}
    return None


def _longest(edit: Edit, sizes: Mapping[str, int]) -> int:
    """The steps of the kernel's longest inner loop."""
    return max(extent_hint(stage.axes, sizes) for stage in edit.emitted.kernel.stages)


@derives("wrong_shuffle_range")
def _half_a_warp(edit: Edit) -> Figures:
    adds = "value += " in edit.parts[0]
    some = "a value in lane 20 that decides the result never comes to lane 0"
    return {"example": "of 32 ones, the sum would be 16 in every lane" if adds else some}


@derives("wrong_tree_start")
def _quarter(edit: Edit) -> Figures:
    threads = edit.emitted.threads[0]
    half, quarter = threads // 2, threads // 4
    tree = {"threads": threads, "half": half, "quarter": quarter, "before": half - 1, "last": threads - 1}
    return tree if quarter else None


@derives("scan_without_carry")
def _alone(edit: Edit) -> Figures:
    gone, piece = edit.gone(Assign), edit.emitted.threads[0]
    for sizes in edit.sizes if gone else ():
        length = _longest(edit, sizes)
        if length > piece:
            return {"at": edit.at(sizes), "length": length, "piece": piece, "last": piece - 1, "gone": gone}
    return None


@derives("lost_additions")
def _lost_updates(edit: Edit) -> Figures:
    node = edit.gone(Assign, side=1)
    match node and node.target:
        case Element(Name(name)):
            for sizes in edit.sizes:
                shape, total = edit.shape(name, sizes), arguments_of(edit.emitted, sizes).get("total")
                if shape is not None and total is not None:
                    places = count_of(shape)
                    more = f", so that at least {total - places} of them share one with another"
                    crowd = more if total > places else ", and some of them to the same one where an index comes twice"
                    return {"at": edit.at(sizes), "total": total, "places": places, "crowd": crowd}
    return None
