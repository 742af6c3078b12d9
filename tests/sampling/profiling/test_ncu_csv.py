"""Nsight Compute's CSV, written by hand in the form that its manual describes: no device was there to print it."""

from random import Random

import pytest

from musadata.errors import MusadataError
from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.diagnosis import write_diagnosis
from musadata.sampling.profiling.kernel_code import read_cuda
from musadata.sampling.profiling.metrics import conflicts_name, sectors_name, wavefronts_name
from musadata.sampling.profiling.ncu_csv import read_ncu_csv

FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size")
FIXED = (*FIXED, "Grid Size", "Device", "CC")
METRICS = sectors_name("load"), wavefronts_name("load"), conflicts_name("load"), "dram__bytes.sum", "launch__func_cache"


def line(*values: str) -> str:
    return ",".join(f'"{value}"' for value in values) + "\n"


def launch(number: int, kernel: str, block: str, grid: str) -> tuple[str, ...]:
    return str(number), "7", "python", "host", kernel, "1", "7", block, grid, "0", "9.0"


COLUMN = launch(0, "void column<float>(const float *)", "(32, 4, 1)", "(1, 1, 1)")
COPY = launch(1, "copy(float *)", "(256, 1, 1)", "(8, 1, 1)")
RAW = "".join(
    [
        "==PROF== Connected to process 7\nthe program's own line\n",
        line(*FIXED, *METRICS),
        line(*[""] * len(FIXED), "sector", "", "", "Kbyte", ""),
        line(*COLUMN, "128", "1,024", "992", "4.50", "No"),
        line(*COPY, "1,048,576", "0", "0", "n/a", "No"),
    ]
)
DETAILS = "".join(
    [
        line(*FIXED, "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
        line(*COPY, "Raw", "dram__bytes.sum", "Mbyte", "2.5"),
        line(*COPY, "Raw", sectors_name("load"), "sector", "2,048"),
    ]
)


def test_the_raw_page_has_a_line_for_each_launch():
    column, copy = read_ncu_csv(RAW)
    assert (column.kernel, column.block, column.grid, column.source) == ("column", (32, 4, 1), (1, 1, 1), "ncu")
    assert column.metrics == {
        sectors_name("load"): 128,
        wavefronts_name("load"): 1024,
        conflicts_name("load"): 992,
        "dram__bytes.sum": 4500,
    }
    assert copy.metrics[sectors_name("load")] == 1_048_576 and "dram__bytes.sum" not in copy.metrics


def test_the_details_page_has_a_line_for_each_metric():
    [copy] = read_ncu_csv(DETAILS)
    assert copy.metrics == {"dram__bytes.sum": 2_500_000, sectors_name("load"): 2048}


def test_measured_counters_are_diagnosed_like_counted_ones():
    column = read_ncu_csv(RAW)[0]
    code = read_cuda("__global__ void column(const float* x, float* y) { __shared__ float tile[32][32]; }")["column"]
    kind, text = write_diagnosis(column, code, Random(1))
    assert kind == "conflicts_tile" and not check_diagnosis(text, column)


@pytest.mark.parametrize("text", ["", "==ERROR== no permission", '"ID","Name"\n"0","x"\n'])
def test_a_text_without_a_table_is_an_error(text):
    with pytest.raises(MusadataError):
        read_ncu_csv(text)
