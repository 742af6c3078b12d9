"""python -m musadata.tasks.fingerprints --benchmark kernelbench --checkout ../KernelBench

Writes musadata/tasks/fingerprints/<benchmark>.json, for `tasks.decontaminate` in the config. Tasks are Python files in
KernelBench's form; `--pattern` says where they lie in the checkout.
"""

import argparse
import json
import sys
from pathlib import Path

from musadata.errors import MusadataError
from musadata.tasks.decontaminate import FOLDER
from musadata.tasks.fingerprints.making import make_fingerprints


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m musadata.tasks.fingerprints", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="name of the set")
    parser.add_argument("--checkout", required=True, type=Path, help="folder with the benchmark's files")
    parser.add_argument("--pattern", default="KernelBench/level*/*.py", help="which files are tasks")
    parser.add_argument("--revision", default="", help="revision of the checkout, for the record")
    parser.add_argument("--output", type=Path, help="file to write; by default among the shipped sets")
    options = parser.parse_args(arguments)
    try:
        files = [(f"{path.parent.name}/{path.stem}", path) for path in sorted(options.checkout.glob(options.pattern))]
        if not files:
            raise MusadataError(
                f"holds no file like {options.pattern}", where=str(options.checkout), remedy="say --pattern"
            )
        made = make_fingerprints(options.benchmark, options.revision, files)
    except MusadataError as error:
        print(error, file=sys.stderr)
        return 2
    output = options.output or FOLDER / f"{options.benchmark}.json"
    output.write_text(json.dumps(made, indent=0) + "\n", encoding="utf-8")
    traced = sum(bool(task["graphs"]) for task in made["tasks"])
    print(f"{output}: {len(made['tasks'])} tasks, {traced} with a graph")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
