"""Diagnoses name the problem that the counters show, and no figure of theirs is made up."""

import re
from dataclasses import replace

import pytest

from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.countable import choose_launch, why_not
from musadata.sampling.profiling.diagnosis import fill, wordings, write_diagnosis
from musadata.sampling.profiling.kernel_code import read_cuda
from musadata.sampling.profiling.metrics import read_launch, read_table, render_table
from musadata.sampling.profiling.problems import find_problems
from musadata.verifier.protocol.access_counts import (
    GlobalCounts,
    LaunchCounts,
    SharedCounts,
    TouchedMemory,
    read_counts,
)

CODE = read_cuda(
    "__global__ void k(const float* x, float* y) { __shared__ float tile[32][32];"
    " for (int r = 0; r < 8; ++r) y[r] = x[r]; }"
)["k"]
LOADS = GlobalCounts("load", 0, 32, 1024, 4096, 128, 128, 32, 0)
STORES = GlobalCounts("store", 1, 32, 1024, 4096, 128, 128, 32, 0)
TOUCHED = TouchedMemory(0, 4096, 128, 0, 0), TouchedMemory(1, 0, 0, 4096, 128)
COPY = LaunchCounts(
    *("k", (8, 1, 1), (128, 1, 1), 0, 0, 0, 0, 64, 2048, 0, 0, 32, 0, 0, False, False, False),
    global_memory=(LOADS, STORES),
    touched=TOUCHED,
)
WIDE = replace(TOUCHED[0], read_sectors=224), TOUCHED[1]
CONFLICTS = SharedCounts("load", 32, 1024, 1024, 992, 32, 0)
ROWS = GlobalCounts("load", 0, 256, 4096, 16384, 8192, 1024, 8192, 0)
EXCHANGE = SharedCounts("load", 300, 2400, 300, 0, 1, 0)
ATOMICS = GlobalCounts("atomic", 1, 32, 1024, 4096, 32, 32, 32, 1024)
UNDECIDED = {  # what follows from the small size that was counted at
    "light": replace(COPY, grid=(4000, 1, 1), touched=(replace(TOUCHED[0], read_sectors=16), TOUCHED[1])),
    "reduction": replace(COPY, requests=400, barriers=72, divergent_requests=100, shared_memory=(EXCHANGE,)),
    "shuffles": replace(COPY, requests=400, barriers=16, collectives=320, shared_memory=(EXCHANGE,)),
    "one block": replace(COPY, grid=(1, 1, 1), idle_threads=120),
    "clean": replace(COPY, grid=(4000, 1, 1)),
}
LAUNCHES = {
    "transposed": replace(COPY, global_memory=(replace(LOADS, sectors=1024), STORES)),
    "strided": replace(COPY, touched=WIDE, global_memory=(replace(LOADS, sectors=224), STORES)),
    "scattered_stores": replace(COPY, global_memory=(LOADS, replace(STORES, sectors=1024))),
    "rows": replace(COPY, lanes=9216, requests=288, global_memory=(ROWS, replace(STORES, lanes=128))),
    "conflicts_tile": replace(COPY, shared_memory=(CONFLICTS,)),
    "divergent": replace(COPY, requests=200, lanes=2048, divergent_requests=180),
    "atomics": replace(COPY, global_memory=(LOADS, ATOMICS)),
    "atomics_scattered": replace(COPY, global_memory=(LOADS, replace(ATOMICS, turns=400))),
    "occupancy_shared": replace(COPY, dynamic_shared=100_000),
    "rows_reused": replace(COPY, lanes=9216, requests=288, global_memory=(replace(ROWS, lanes=8000), STORES)),
}


@pytest.mark.parametrize("kind", LAUNCHES)
def test_the_costliest_problem_comes_first_and_every_figure_agrees(kind):
    counters = read_launch(LAUNCHES[kind], CODE.pointers)
    found, text = write_diagnosis(counters, CODE)
    assert found == kind
    assert not check_diagnosis(text, counters), text


@pytest.mark.parametrize("kind", UNDECIDED)
def test_nothing_is_said_that_follows_from_the_size_of_a_launch(kind):
    plain = replace(CODE, text=CODE.text.replace("tile[32][32]", "partial[32]"))
    assert write_diagnosis(read_launch(UNDECIDED[kind], plain.pointers), plain) == ("", "")


@pytest.mark.parametrize("kind", LAUNCHES)
def test_a_changed_figure_is_seen(kind):
    """Each figure of each text in turn, by one."""
    counters = read_launch(LAUNCHES[kind], CODE.pointers)
    _, text = write_diagnosis(counters, CODE)
    prose = re.sub(r"`[^`]*`", lambda code: "#" * len(code[0]), text)
    figures = list(re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", prose))
    assert figures
    for figure in figures:
        changed = text[: figure.start()] + f"{float(figure[0]) + 7919:g}" + text[figure.end() :]
        assert check_diagnosis(changed, counters), changed


def test_wrong_arithmetic_and_another_pointers_figures_are_seen():
    counters = read_launch(LAUNCHES["transposed"], CODE.pointers)
    assert not check_diagnosis("The loads from `x` touch 1024 / 32 = 32 sectors.", counters)
    assert check_diagnosis("The loads from `x` touch 1024 / 32 = 33 sectors.", counters)
    assert check_diagnosis("The stores to `y` touch 32 / 0 = 0 sectors.", counters)
    assert not check_diagnosis("The launch has 1152 sectors.", counters)
    assert check_diagnosis("The stores to `y` touch 1025 sectors.", counters)


GATHER = read_cuda(
    "__global__ void k(const float* x, float* y, const int64_t* index, int n) {"
    " const int i = threadIdx.x; const int64_t place = index[i]; const int64_t row = place * n;"
    " y[index[i]] = x[row + 1] + x[i]; }"
)["k"]


def test_accesses_that_indices_choose_are_not_told_to_exchange_threads():
    assert GATHER.gathered == {"x", "y"} and CODE.gathered == set()
    for kind, told in (("transposed", "gathered"), ("scattered_stores", "gathered_stores")):
        counters = read_launch(LAUNCHES[kind], GATHER.pointers)
        found, text = write_diagnosis(counters, GATHER)
        assert found == told and not check_diagnosis(text, counters)


def test_windows_that_overlap_or_leave_gaps_are_not_far_apart():
    gaps = replace(LAUNCHES["transposed"], global_memory=(replace(LOADS, sectors=9 * 32), STORES))
    assert write_diagnosis(read_launch(gaps, CODE.pointers), CODE)[0] == "strided"


def test_atomics_that_meet_by_chance_are_no_contention():
    """Scattered indices make a few lanes of a warp meet; a copy in shared memory would cost more than it spares."""
    by_chance = replace(COPY, global_memory=(LOADS, replace(ATOMICS, turns=110)))
    assert not [one for one in find_problems(read_launch(by_chance, CODE.pointers), CODE) if "atomics" in one.kind]


def test_the_end_of_the_last_block_is_no_problem():
    launch = replace(COPY, grid=(2, 1, 1), idle_threads=97)
    assert not find_problems(read_launch(launch, CODE.pointers), CODE)


@pytest.mark.parametrize(("blocks", "stored", "kind"), [(4000, 100, "tiles"), (4000, 2000, "")])
def test_what_is_read_again_is_blamed_only_where_it_is_most_of_the_traffic_of_a_launch_that_lasts(blocks, stored, kind):
    launch = replace(
        COPY,
        grid=(blocks, 1, 1),
        lanes=2 * blocks * 128,
        global_memory=(
            replace(LOADS, sectors=2000, least_sectors=2000),
            replace(STORES, sectors=stored, least_sectors=stored),
        ),
        touched=(replace(TOUCHED[0], read_sectors=300), replace(TOUCHED[1], written_sectors=stored)),
    )
    said, text = write_diagnosis(read_launch(launch, CODE.pointers), CODE)
    assert said == kind, text


def test_every_wording_can_be_filled():
    for kind, parts in wordings().items():
        for wording in parts.values():
            assert "{" not in fill(wording, dict.fromkeys(re.findall(r"\w+", wording), 2)), kind


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (COPY, ""),
        (replace(COPY, incomplete=True), "too many accesses"),
        (replace(COPY, module_accesses=3), "it accesses variables of the module"),
        (replace(COPY, global_memory=(replace(LOADS, argument=7),)), "its pointers are not found"),
    ],
)
def test_a_launch_whose_counts_are_not_exact_is_left_out(launch, why):
    assert why_not(launch, CODE) == why
    chosen = choose_launch([launch], {"k": CODE})
    assert chosen == why if why else not isinstance(chosen, str)


def test_loops_with_skipped_turns_are_left_out_only_where_turns_repeat():
    code = replace(CODE, skips=True, nested=True)
    assert not why_not(COPY, code)
    assert why_not(replace(COPY, repeated=True), code)
    assert why_not(replace(COPY, repeated=True, uneven=True), replace(code, skips=False))
    assert not why_not(replace(COPY, repeated=True), replace(code, skips=False))


def test_the_costliest_launch_is_chosen():
    big = replace(COPY, kernel="big", global_memory=(replace(LOADS, sectors=999),))
    counters, _ = choose_launch([COPY, big], {"k": CODE, "big": CODE})
    assert counters.kernel == "big"


@pytest.mark.parametrize("text", ["launch\tk\t1", "global\tload\t0", "launch\t" + "k\t" * 21, "what\t1"])
def test_counts_of_another_form_are_refused(text):
    with pytest.raises(ValueError):
        read_counts(text)


@pytest.mark.parametrize("kind", LAUNCHES)
def test_the_table_of_a_prompt_is_read_back(kind):
    counters = read_launch(LAUNCHES[kind], CODE.pointers)
    read = read_table(render_table(counters))
    assert (read.metrics, read.pointers) == (counters.metrics, counters.pointers)
    _, text = write_diagnosis(counters, CODE)
    assert not check_diagnosis(text, read)


def test_the_stores_of_one_lane_for_each_row_are_no_divergence():
    rows = replace(STORES, requests=150, lanes=150)
    warps = replace(COPY, requests=200, lanes=2048, divergent_requests=180)
    lone = read_launch(replace(warps, global_memory=(LOADS, rows)), CODE.pointers)
    assert not {one.kind for one in find_problems(lone, CODE)} & {"divergent"}
    shared = read_launch(replace(warps, global_memory=(LOADS, replace(rows, lanes=900))), CODE.pointers)
    assert "divergent" in {one.kind for one in find_problems(shared, CODE)}
