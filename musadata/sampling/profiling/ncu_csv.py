"""Reads what Nsight Compute prints with `ncu --csv`: the raw page, a line for each launch, and the details page, a line
for each metric, as its manual describes them ("Command Line Interface", output pages)."""

import csv
import re
from collections.abc import Iterator

from musadata.errors import MusadataError
from musadata.sampling.profiling.metrics import Counters

_KERNEL, _BLOCK, _GRID = "Kernel Name", "Block Size", "Grid Size"
_METRIC, _VALUE, _UNIT = "Metric Name", "Metric Value", "Metric Unit"
_FIXED = frozenset(
    {"ID", "Process ID", "Process Name", "Host Name", _KERNEL, "Context", "Stream", _BLOCK, _GRID, "Device", "CC"}
)
# Units that Nsight Compute scales by itself, and the factors that take them back to its base units.
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BASE_UNITS = ("byte", "sector", "inst", "warp", "thread", "block", "request", "cycle")


def read_ncu_csv(text: str) -> list[Counters]:
    """The launches of a profile, with all metrics that have a number.

    Lines before the header, which the profiled program and the profiler print, are skipped.

    Raises:
        MusadataError: the text holds no table of Nsight Compute.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise MusadataError("holds no table", where="Nsight Compute's CSV", remedy="run ncu with --csv --page raw")
    header, *rows = csv.reader(line for line in lines[start:] if line.startswith('"'))
    rows = [row for row in rows if len(row) >= len(header) - 5]  # trailing columns of rules may be left out
    if _KERNEL not in header:
        raise MusadataError("has no column of kernels", where="Nsight Compute's CSV", remedy="use ncu 2022.1 or later")
    records = [dict(zip(header, row, strict=False)) for row in rows]
    return list(_read_details(records)) if _METRIC in header else list(_read_raw(records))


def _read_raw(records: list[dict[str, str]]) -> Iterator[Counters]:
    units = records[0] if records and not records[0]["ID"] else {}
    for record in records:
        if record["ID"]:
            metrics = {name: value for name, value in record.items() if name not in _FIXED}
            yield _counters(record, {name: _number(text, units.get(name, "")) for name, text in metrics.items()})


def _read_details(records: list[dict[str, str]]) -> Iterator[Counters]:
    launches: dict[str, tuple[dict[str, str], dict[str, float | None]]] = {}
    for record in records:
        _, metrics = launches.setdefault(record["ID"], (record, {}))
        if record[_METRIC]:
            metrics[record[_METRIC]] = _number(record[_VALUE], record.get(_UNIT, ""))
    for record, metrics in launches.values():
        yield _counters(record, metrics)


def _counters(record: dict[str, str], metrics: dict[str, float | None]) -> Counters:
    known = {name: value for name, value in metrics.items() if value is not None}
    kernel = re.split(r"[<(]", record[_KERNEL].removeprefix("void "), maxsplit=1)[0].strip()
    return Counters(kernel, _triple(record.get(_GRID, "")), _triple(record.get(_BLOCK, "")), known, (), "ncu")


def _triple(text: str) -> tuple[int, int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z


def _number(text: str, unit: str) -> float | None:
    """A value in its base unit: "1,024.50" of "Kbyte" is 1024500; None for text."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    scale, base = unit[:1], unit[1:].partition("/")[0]
    return value * _SCALES[scale] if scale in _SCALES and base in _BASE_UNITS else value
