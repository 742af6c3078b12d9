"""A git repository at one commit, read from its object store: no checkout, and no hook or filter runs."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.code import CodeFiles
from musadata.sources.protocol import UnreadableFile
from musadata.sources.trees import MAX_FILE_BYTES

PLAIN_FILES = ("100644", "100755")  # neither links nor submodules
FOLDERS = ("040000",)
CLONE_SECONDS = 1800
FRESH_SECONDS = 7 * 24 * 3600
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SHALLOW = ("--depth=1", f"--filter=blob:limit={MAX_FILE_BYTES}", "--no-tags", "--quiet")
REMOTE = re.compile(r"^(https?|git|ssh|file)://|^[\w.-]+@[\w.-]+:")
# Overrides the configuration of user and repository, so that git executes no configured program.
SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.directory=*", "protocol.ext.allow=never")
SAFE = tuple(part for setting in SETTINGS for part in ("-c", setting))


class GitTree:
    """The files of one commit, through one long-lived `git cat-file --batch`."""

    def __init__(self, repository: Path, commit: str):
        self._repository, self._commit = repository, commit
        self._process: subprocess.Popen[bytes] | None = None

    @cached_property
    def _objects(self) -> dict[str, str | None]:
        """Path -> the file's object; None for a folder that cannot be listed."""
        try:
            return dict(sorted(_files(self._list(self._commit, "-r"))))
        except MusadataError:
            return dict(sorted(self._walk(self._commit, "")))

    def _list(self, tree: str, *options: str) -> bytes:
        return run_git(self._repository, "ls-tree", *options, "-z", "--full-tree", tree)

    def _walk(self, tree: str, folder: str) -> Iterator[tuple[str, str | None]]:
        """The listing, folder by folder: reads the intact parts of a damaged repository."""
        try:
            listing = self._list(tree)
        except MusadataError:
            if not folder:
                raise
            yield folder, None
            return
        for name, oid in _files(listing):
            yield f"{folder}/{name}".lstrip("/"), oid
        for name, oid in _files(listing, FOLDERS):
            yield from self._walk(oid, f"{folder}/{name}".lstrip("/"))

    def paths(self) -> list[str]:
        return [path for path, oid in self._objects.items() if oid is not None]

    @property
    def faults(self) -> list[str]:
        """Folders that cannot be listed; a source lists them as units, so that each is reported."""
        return [path for path, oid in self._objects.items() if oid is None]

    def read(self, path: str) -> bytes:
        name = self._objects.get(path, "")
        if name is None:
            raise UnreadableFile("unreadable_object", "missing or damaged folder")
        if not name:
            raise UnreadableFile("unreadable", "no such file")
        try:
            return self._read_object(name)
        except (OSError, ValueError) as error:
            self.close()
            raise UnreadableFile("unreadable_object", str(error)[:100]) from error

    def _read_object(self, name: str) -> bytes:
        process = self._opened()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{name}\n".encode())
        process.stdin.flush()
        head = process.stdout.readline().split()
        if len(head) != 3:
            raise ValueError("missing or damaged object")
        size = int(head[2])
        if size > MAX_FILE_BYTES:
            for start in range(0, size + 1, 1 << 20):
                process.stdout.read(min(1 << 20, size + 1 - start))
            raise UnreadableFile("file_too_large", f"more than {MAX_FILE_BYTES} bytes")
        data = process.stdout.read(size + 1)
        algorithm = hashlib.sha1 if len(name) == 40 else hashlib.sha256
        if algorithm(b"blob %d\0" % size + data[:-1]).hexdigest() != name:  # git itself does not check on reading
            raise ValueError("damaged object")
        return data[:-1]

    def _opened(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = process = subprocess.Popen(
                ["git", *SAFE, "-C", str(self._repository), "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(),
            )
            self._end = weakref.finalize(self, _end, process)  # not __del__, which may find its pipes closed before it
        return self._process

    def close(self) -> None:
        """End the reader; the next read starts another."""
        if self._process is not None:
            self._end()
            self._process = None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not flushed has no reader any more
            pipe.close()


def _files(listing: bytes, modes: Sequence[str] = PLAIN_FILES) -> Iterator[tuple[str, str]]:
    """(path, object) of the entries with these modes. Names that are not UTF-8 keep their bytes."""
    for entry in listing.split(b"\0"):
        head, _, name = entry.partition(b"\t")
        fields = head.decode().split()
        if len(fields) == 3 and fields[0] in modes:
            yield name.decode("utf-8", "surrogateescape"), fields[2]


def environment() -> dict[str, str]:
    """Environment for git: no prompts, no configuration of user or system, no lazy fetching."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    fixed = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    return {**kept, **fixed, "GIT_ASKPASS": "true", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}


def run_git(repository: Path, *arguments: str, seconds: float = 600) -> bytes:
    """What a git command prints.

    Raises:
        MusadataError: it failed; the message holds git's own last line.
    """
    command = ["git", *SAFE, "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, env=environment(), timeout=seconds, check=False)
    except FileNotFoundError as error:
        raise MusadataError("is not installed", where="git", remedy="install git") from error
    except subprocess.TimeoutExpired as error:
        raise MusadataError(f"took more than {seconds:.0f} s", where=f"git {arguments[0]}") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MusadataError(lines[-1] if lines else "failed", where=f"git {arguments[0]}")
    return done.stdout


def open_git(config: SourceConfig, seed: int) -> CodeFiles:
    """A repository at a commit.

    Raises:
        MusadataError: it cannot be cloned or opened, has no such revision, or no Python files.
    """
    remote = bool(REMOTE.match(config.url))
    where = f"git {config.url}"
    try:
        repository = mirror(config.url, config.revision) if remote else Path(config.url).expanduser()
        commit = _resolve(repository, config.revision if not remote else "FETCH_HEAD")
    except MusadataError as error:
        raise MusadataError(error.what, where=where, remedy="check url and revision") from error
    name = config.url if remote else _remote_of(repository) or f"{repository.resolve().name}"
    name = name.removesuffix("/").removesuffix(".git")
    tree, public = GitTree(repository, commit), name if REMOTE.match(name) else ""
    try:
        tree.paths()
    except MusadataError as error:
        raise MusadataError(error.what, where=where, remedy="clone it again, some of it is missing") from error
    source = CodeFiles(f"git:{name}", tree, config, seed, repository=public, revision=commit, kernels=config.kernels)
    return source.require_units(where)


def _resolve(repository: Path, revision: str) -> str:
    if revision.startswith("-"):
        raise MusadataError("is not a revision")
    commit = f"{revision or 'HEAD'}^{{commit}}"
    return run_git(repository, "rev-parse", "--verify", "--end-of-options", commit).decode().strip()


def _remote_of(repository: Path) -> str:
    """The URL that a clone came from, if others can reach it."""
    try:
        url = run_git(repository, "config", "--get", "remote.origin.url").decode().strip()
    except MusadataError:
        return ""
    return re.sub(r"//[^/@]*@", "//", url) if re.match(r"^https?://", url) else ""


def mirror(url: str, revision: str) -> Path:
    """A bare, shallow clone of one revision in the cache, without files larger than we would read. That of a branch is
    brought up to date once it is a week old.

    Raises:
        MusadataError: the remote cannot be reached or has no such revision.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "musadata" / "git"
    place = cache / hashlib.sha256(f"{url}\n{revision}".encode()).hexdigest()[:24]
    if (place / "FETCH_HEAD").exists():
        old = time.time() - (place / "FETCH_HEAD").stat().st_mtime > FRESH_SECONDS
        if old and not COMMIT.fullmatch(revision):
            with suppress(MusadataError):  # what is there will do
                run_git(place, "fetch", *SHALLOW, url, revision or "HEAD", seconds=CLONE_SECONDS)
        return place
    if url.startswith("-") or revision.startswith("-"):
        raise MusadataError("is neither a URL nor a revision")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        fresh = Path(temporary) / "repository"
        fresh.mkdir()
        run_git(fresh, "init", "--bare", "--quiet")
        run_git(fresh, "fetch", *SHALLOW, url, revision or "HEAD", seconds=CLONE_SECONDS)
        try:
            fresh.rename(place)
        except OSError:
            if not (place / "FETCH_HEAD").exists():  # another worker may have been faster
                shutil.rmtree(place, ignore_errors=True)
                fresh.rename(place)
    return place
