"""A journal of a million entries: memory and time of the process that writes it and of one that opens it.

    python -m benchmarks.journals --output benchmarks/results/journals.json

Each measurement is a process of its own; its memory is all of it, Python and imports included.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, Row, python, report

READS = 10_000
# The largest resident memory is read from the kernel: a child of a larger process would inherit that one's.
MEASURED = """
import json, random, sys, time
from musadata.storage.journal import Journal

folder, entries, size, reads = sys.argv[1], *map(int, sys.argv[2:5])
choose = random.Random(1)

def key(number):
    return f"verdict-{number:056x}"

def peak_gb():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 2**20

start = time.monotonic()
if sys.argv[5] == "write":
    text = "".join(choose.choices("0123456789abcdef ", k=size))
    with Journal(folder, "verdicts") as journal:
        for number in range(entries):
            journal.put(key(number), {"number": number, "text": text})
    found = {"seconds": time.monotonic() - start}
else:
    journal = Journal(folder, "verdicts")
    found = {"seconds": time.monotonic() - start, "entries": len(journal)}
    start = time.monotonic()
    for number in choose.choices(range(entries), k=reads):
        assert journal.get(key(number))["number"] == number
    found["read_seconds"] = (time.monotonic() - start) / reads
    assert journal.get(key(entries)) is None
print(json.dumps({**found, "peak_gb": peak_gb()}))
"""


def measure(folder: Path, entries: int, size: int, what: str) -> dict[str, Any]:
    command = [python(), "-c", MEASURED, str(folder), str(entries), str(size), str(READS), what]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=4000, help="of each value")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    details: dict[str, Any] = {"entries": options.entries, "bytes": options.bytes}
    with tempfile.TemporaryDirectory() as folder:
        for what in ("write", "open"):
            details[what] = measure(Path(folder), options.entries, options.bytes, what)
    if details["open"]["entries"] != options.entries:
        raise SystemExit("benchmark: entries are missing")
    for what, done in (("write", "writes"), ("open", "opens")):
        peak = details[what]["peak_gb"]
        name = f"process that {done} a journal of {options.entries:,} entries, {options.bytes:,} B each"
        rows.append((name, "<= 1 GB", f"{peak:.2f} GB", peak <= 1.0))
        rows.append(("... seconds", "", f"{details[what]['seconds']:.0f} s", True))
    rows.append(("... to read one entry", "", f"{1e6 * details['open']['read_seconds']:.0f} µs", True))
    report("journals", rows, details, options.output)


if __name__ == "__main__":
    main()
