"""What an outage does to a corpus: killed processes, full filesystems, short memory, each at random moments.

    python -m benchmarks.outages --kind kill --moments 100 --output benchmarks/results/outages_kill.json
    python -m benchmarks.outages --kind corpus|cache|scratch --moments 20      # as root: mounts a small tmpfs
    python -m benchmarks.outages --kind memory --moments 10                    # as root: a memory cgroup and a hog

Each moment is a run of a small corpus by `pipelines.all` that is disturbed once; then the same command is given until
it succeeds. A moment is good if no command hangs, exit code 0 is only given for a complete corpus, the bytes in the end
are those of the undisturbed run, no process, shared memory or scratch file is left, and nothing was asked or judged
twice but what was under way.

Hours of moments need not be made in one go: `--moments-file` keeps each as a JSON line with its revision, and goes on
with those that are missing.
"""

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring import ROOT, describe_revision, report

PR_SET_CHILD_SUBREAPER = 36
HANG_SECONDS = 300.0
MOST_RERUNS = 6
IN_FLIGHT = 8  # two workers, two verdicts and two answers each
CONFIG = """\
seed: 7
shards: 3
sources:
  - {kind: directory, path: SOURCE, license: Apache-2.0}
  - {kind: nnsmith, count: 1, nodes: 3}
teacher: {kind: compiler, samples: 1, faults: 1}
verifier: {backend: emulated}
tasks: {licenses: [Apache-2.0]}
"""
MODULES = Path(__file__).with_name("outages_modules.py")  # what the corpus is mined from


@dataclass
class Moment:
    """One disturbed run and what became of it. `wrong` is empty if it is as it should be."""

    number: int
    what: str = ""
    workers: int = 2
    after_seconds: float = 0.0
    codes: list[int] = field(default_factory=list)
    said: str = ""
    repeated: int = 0
    wrong: list[str] = field(default_factory=list)
    revision: str = field(default_factory=describe_revision)


@dataclass(frozen=True)
class Place:
    """The folders of one moment: of the corpus, the caches and the scratch files."""

    corpus: Path
    cache: Path
    scratch: Path


class Bench:
    """Runs the small corpus, undisturbed first, and disturbed at random moments."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.seed, self.random = folder, seed, random.Random(seed)
        source = folder / "source"
        source.mkdir(parents=True, exist_ok=True)
        (source / "modules.py").write_text(MODULES.read_text())
        self.config = folder / "config.yaml"
        self.config.write_text(CONFIG.replace("SOURCE", str(source)))
        self.libraries = folder / "libraries"  # the emulator's own, so that each moment compiles candidates only
        self.libraries.mkdir(exist_ok=True)
        self.workers = 2
        place = self.place()
        code, output = self.run(place)
        if code:
            raise SystemExit(f"benchmark: the undisturbed run fails:\n{output[-3000:]}")
        self.bytes = digests(place.corpus)
        self.libraries.rmdir()
        place.cache.rename(self.libraries)
        shutil.rmtree(self.libraries / "artifacts")
        self.seconds: dict[int, float] = {}  # of an undisturbed run, by the number of workers
        self.measure(2)

    def measure(self, workers: int) -> float:
        """Let the next commands have so many workers. Returns how long they take undisturbed."""
        self.workers = workers
        if workers not in self.seconds:
            place, start = self.place(), time.monotonic()
            self.run(place)
            self.seconds[workers] = time.monotonic() - start
            if digests(place.corpus) != self.bytes:
                raise SystemExit("benchmark: two undisturbed runs differ")
        return self.seconds[workers]

    def place(self) -> Place:
        """Fresh folders, always of the same names: the emulator's own libraries in the cache hold them."""
        root = self.folder / "moment"
        shutil.rmtree(root, ignore_errors=True)
        place = Place(root / "corpus", root / "cache", root / "scratch")
        place.scratch.mkdir(parents=True)
        shutil.copytree(self.libraries, place.cache, copy_function=os.link)
        return place

    def start(self, place: Place) -> "subprocess.Popen[str]":
        """The command, in the background; what it prints goes to a file."""
        command = [sys.executable, "-m", "pipelines.all", "--config", str(self.config), "--corpus", str(place.corpus)]
        command += [f"--direct_num_workers={self.workers}"]
        environment = {**os.environ, "MUSADATA_CACHE": str(place.cache), "TMPDIR": str(place.scratch)}
        log = (self.folder / "log.txt").open("w")
        with log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, text=True)

    def run(self, place: Place) -> tuple[int, str]:
        """The command's exit code and what it printed; -999 where it hangs."""
        return self.finish(self.start(place))

    def finish(self, process: "subprocess.Popen[str]") -> tuple[int, str]:
        try:
            code = process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            code = -999
            end_all()
            process.wait()
        return code, (self.folder / "log.txt").read_text(errors="replace")

    def moment(self, number: int, workers: int, disturb: Callable[[Place, float, Moment], Any]) -> Moment:
        """One run, disturbed, and the same command until it succeeds."""
        seconds = self.measure(workers)
        self.random = random.Random(f"{self.seed}-{number}")
        shared = set(Path("/dev/shm").iterdir())
        moment = Moment(number, workers=workers)
        while not moment.what and not moment.wrong:  # again where the run has ended before it was disturbed
            place = self.place()
            moment = Moment(number, workers=workers, after_seconds=round(self.random.uniform(0.0, seconds), 2))
            with disturb(place, moment.after_seconds, moment) as process:
                code, output = self.finish(process)
            moment.codes.append(code)
            said = " | ".join(line for line in output.strip().splitlines() if "musadata:" in line)
            moment.said = _without_folder(said)[-600:]
            self.judge_end(code, output, place, moment)
            if code and not moment.what:
                moment.wrong.append("fails undisturbed")
        while moment.codes[-1] != 0 and len(moment.codes) < MOST_RERUNS:
            code, output = self.run(place)
            moment.codes.append(code)
            self.judge_end(code, output, place, moment)
        self.judge_result(place, shared, moment)
        return moment

    def judge_end(self, code: int, output: str, place: Place, moment: Moment) -> None:
        if code == -999:
            moment.wrong.append("hangs")
        if "Traceback" in output:
            moment.wrong.append(f"traceback: {output.strip().splitlines()[-1][:200]}")
        if code == 0 and digests(place.corpus) != self.bytes:
            moment.wrong.append(f"exit code 0 with other bytes: {differing(self.bytes, digests(place.corpus))}")
        left = end_all(grace_seconds=5.0)
        if left:
            moment.wrong.append(f"left running: {left}")

    def judge_result(self, place: Place, shared: set[Path], moment: Moment) -> None:
        if moment.codes[-1] != 0:
            moment.wrong.append(f"never succeeds: {moment.codes}")
        elif digests(place.corpus) != self.bytes:
            moment.wrong.append("other bytes")
        moment.repeated = repeated(place.corpus)
        if moment.repeated > IN_FLIGHT:
            moment.wrong.append(f"repeated {moment.repeated}")
        left = left_shared(shared)
        left += [str(path.relative_to(place.scratch)) for path in place.scratch.rglob("*")]
        left += [str(path.name) for path in place.cache.rglob(".partial-*")]
        if left:
            moment.wrong.append(f"left behind: {left[:4]}")


def left_shared(before: set[Path]) -> list[str]:
    """Shared memory that is new and that no process maps: all of ours have ended, others' may use it."""
    for _ in range(5):
        mapped = "".join(_maps(process) for process in psutil.process_iter())
        left = [str(path) for path in set(Path("/dev/shm").iterdir()) - before if str(path) not in mapped]
        if not left:
            break
        time.sleep(1.0)  # it may be on its way
    return left


def _maps(process: psutil.Process) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/maps").read_text()
    return ""


def digests(corpus: Path) -> dict[str, str]:
    """SHA-256 by relative path of all that the corpus holds, but for its journals."""
    files = [path for path in corpus.rglob("*") if path.is_file() and path.relative_to(corpus).parts[0] != "_journal"]
    return {str(path.relative_to(corpus)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))[:4]


def repeated(corpus: Path) -> int:
    """How many executions, answers and verdicts stand in the journals more than once."""
    keys: Counter[tuple[str, str]] = Counter()
    for segment in (corpus / "_journal").rglob("*.jsonl"):
        for line in segment.read_bytes().splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                keys[segment.name.split(".")[0], json.loads(line)["key"]] += 1
    return sum(count - 1 for count in keys.values())


def end_all(grace_seconds: float = 0.0) -> list[str]:
    """End every process that the command has left, and name those that were there after the grace period."""
    me, end = psutil.Process(), time.monotonic() + grace_seconds
    while (left := me.children(recursive=True)) and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if process.status() == psutil.STATUS_ZOMBIE and process.ppid() == me.pid:
                    os.waitpid(process.pid, os.WNOHANG)
        time.sleep(0.1)
    names = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                names.append(kind_of(process))
            process.kill()
    for process in left:
        with contextlib.suppress(ChildProcessError, psutil.Error):
            os.waitpid(process.pid, 0)
    return names


def kind_of(process: psutil.Process) -> str:
    """What a process of the run is."""
    name, line = process.name(), " ".join(process.cmdline())
    if "pipelines.all" in line:
        return "main"
    if "pipelines.worker" in line:
        return "worker"
    if "musadata.sandbox.server" in line:
        above = sum(one.cmdline() == process.cmdline() for one in process.parents())  # forks have the same line
        return "call" if above > (" template " in line) else "server"
    return "compiler" if name in ("cc1plus", "as", "ld", "g++", "c++", "collect2") else "other"


@contextlib.contextmanager
def killing(bench: Bench, place: Place, after: float, moment: Moment) -> Iterator["subprocess.Popen[str]"]:
    """SIGKILL one process of the run; each kind of process that there is has the same chance."""
    process = bench.start(place)

    def kill() -> None:
        while not moment.what and process.poll() is None:  # processes come and go while they are looked at
            with contextlib.suppress(psutil.Error):
                main = psutil.Process(process.pid)
                by_kind: dict[str, list[psutil.Process]] = {}
                for one in [main, *main.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        by_kind.setdefault(kind_of(one), []).append(one)
                kind = bench.random.choice(sorted(by_kind))
                bench.random.choice(by_kind[kind]).send_signal(signal.SIGKILL)
                moment.what = kind

    timer = threading.Timer(after, kill)
    timer.start()
    yield process
    timer.cancel()
    timer.join()


@contextlib.contextmanager
def filling(which: str, bench: Bench, place: Place, after: float, moment: Moment) -> Iterator["subprocess.Popen[str]"]:
    """Let the filesystem of the corpus, the cache or the scratch files be full from a moment on, until the run ends."""
    folder: Path = getattr(place, which)
    folder.mkdir(parents=True, exist_ok=True)
    held = folder.with_name(f"{which}-before")
    shutil.copytree(folder, held)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500m", "none", str(folder)], check=True)
    try:
        shutil.copytree(held, folder, dirs_exist_ok=True)
        process = bench.start(place)

        def fill() -> None:
            if process.poll() is None:
                moment.what = f"{which} full"
                _fill(folder / ".filler")

        timer = threading.Timer(after, fill)
        timer.start()
        yield process
        timer.cancel()
        timer.join()
        (folder / ".filler").unlink(missing_ok=True)
        shutil.rmtree(held)
        shutil.copytree(folder, held)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    shutil.rmtree(folder)
    held.rename(folder)


def _fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        block = b"\0" * (1 << 20)
        while file.write(block):
            pass


@contextlib.contextmanager
def starving(bench: Bench, place: Place, after: float, moment: Moment) -> Iterator["subprocess.Popen[str]"]:
    """Run in a memory cgroup in which another process takes nearly all that is left, for some seconds."""
    group = Path("/sys/fs/cgroup/memory") / f"outages-{os.getpid()}"
    group.mkdir()
    try:
        process = bench.start(place)
        (group / "cgroup.procs").write_text(str(process.pid))
        stop = threading.Event()

        def squeeze() -> None:
            if stop.wait(after):
                return
            moment.what = "memory short"
            used = int((group / "memory.usage_in_bytes").read_text())
            with contextlib.suppress(OSError):  # the limit, just above what is in use, is as if others took the rest
                (group / "memory.limit_in_bytes").write_text(str(used + (32 << 20)))
            stop.wait(8.0)
            with contextlib.suppress(OSError):
                (group / "memory.limit_in_bytes").write_text("-1")

        thread = threading.Thread(target=squeeze)
        thread.start()
        yield process
        stop.set()
        thread.join()
        ended = dict(line.split() for line in (group / "memory.oom_control").read_text().splitlines())["oom_kill"]
        moment.what = moment.what and f"memory short, {ended} processes killed"
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def read_moments(path: Path | None) -> list[Moment]:
    """The moments that were made before."""
    if path is None or not path.exists():
        return []
    return [Moment(**json.loads(line)) for line in path.read_text().splitlines()]


def _without_folder(said: str) -> str:
    """The text without the part of its paths that only this run has."""
    return re.sub(r"/\S*/moment/", "", said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["kill", "corpus", "cache", "scratch", "memory"], required=True)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="of each moment, in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--moments-file", type=Path, help="of one kind")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the command leaves behind becomes ours
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), arguments.seed)
        print(f"undisturbed: {bench.seconds[2]:.1f} s", flush=True)
        disturb: dict[str, Any] = {"kill": killing, "memory": starving}
        moments = read_moments(arguments.moments_file)
        for number in sorted(set(range(arguments.moments)) - {moment.number for moment in moments}):

            def disturbance(place: Place, after: float, moment: Moment) -> Any:
                if arguments.kind in disturb:
                    return disturb[arguments.kind](bench, place, after, moment)
                return filling(arguments.kind, bench, place, after, moment)

            workers = arguments.workers[number % len(arguments.workers)]
            moments.append(bench.moment(number, workers, disturbance))
            print(json.dumps(asdict(moments[-1])), flush=True)
            if arguments.moments_file:
                with arguments.moments_file.open("a") as file:
                    file.write(json.dumps(asdict(moments[-1])) + "\n")
    moments.sort(key=lambda moment: moment.number)
    good = sum(not moment.wrong for moment in moments)
    most = max((moment.repeated for moment in moments), default=0)
    rows = [
        (f"{arguments.kind}: moments as they should be", f"{len(moments)}", f"{good}", good == len(moments)),
        ("... most answers, executions and verdicts repeated", f"<= {IN_FLIGHT}", f"{most}", most <= IN_FLIGHT),
    ]
    by_revision = Counter(moment.revision for moment in moments)
    details = {
        "moments_by_revision": dict(by_revision),
        "seconds_undisturbed": bench.seconds,
        "moments": [asdict(moment) for moment in moments],
    }
    report(f"outages: {arguments.kind}", rows, details, arguments.output)


if __name__ == "__main__":
    main()
