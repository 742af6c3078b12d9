"""A seccomp filter that refuses the system calls that computing never needs.

The numbers are those of the kernel's syscall tables for x86-64 and aarch64; on other machines no filter is set.
"""

import ctypes
import os
import platform
import struct
from pathlib import Path


def _read_denied() -> dict[str, dict[str, int]]:
    text = Path(__file__).with_name("system_calls.txt").read_text(encoding="utf-8")
    heading, *rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {
        machine: {row[0]: int(row[at]) for row in rows if row[at] != "-"} for at, machine in enumerate(heading) if at
    }


_DENIED = _read_denied()  # numbers by machine and name; read before this process locks itself in
# The architecture as the filter sees it, and the number of clone.
_MACHINES = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}
# (system call, which argument, value that is refused), by the number of clone: SIGKILL to anybody and the end of a CPU
# time limit of its own choice, so that a call that dies of SIGKILL was killed from outside.
_SIGKILL, _RLIMIT_CPU = 9, 0
_DENIED_ARGUMENTS = {
    56: ((62, 1, _SIGKILL), (200, 1, _SIGKILL), (234, 2, _SIGKILL), (129, 1, _SIGKILL), (297, 2, _SIGKILL),
         (424, 1, _SIGKILL), (160, 0, _RLIMIT_CPU), (302, 1, _RLIMIT_CPU)),
    220: ((129, 1, _SIGKILL), (130, 1, _SIGKILL), (131, 2, _SIGKILL), (138, 1, _SIGKILL), (240, 2, _SIGKILL),
          (424, 1, _SIGKILL), (164, 0, _RLIMIT_CPU), (261, 1, _RLIMIT_CPU)),
}  # fmt: skip
_CLONE3 = 435  # the same everywhere; its flags lie in memory that a filter cannot read
_CLONE_NEW_NAMESPACES = 0x7E020000
_X32_NUMBERS = 0x40000000  # a second table on x86-64 kernels; no other machine has such numbers

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_AF_UNIX = 1
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_libc = ctypes.CDLL(None, use_errno=True)


def deny_system_calls(local_sockets: bool = False) -> None:
    """Refuse the listed calls with EPERM, for this process and all that it starts; sets no_new_privs.

    With `local_sockets` a process may open Unix sockets and listen on them, but still connect to none: CUDA's driver
    does not start without (seen with driver 580).
    """
    if _libc.prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    machine = platform.machine()
    if machine not in _MACHINES:
        return
    code = b"".join(struct.pack("HBBI", *line) for line in _program(machine, local_sockets))
    instructions = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions))
    if _libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp: " + os.strerror(ctypes.get_errno()))


def _program(machine: str, local_sockets: bool) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand)."""
    (architecture, clone), denied = _MACHINES[machine], _DENIED[machine]
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32_NUMBERS),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),  # the C library then falls back to clone
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ANY_BIT, 0, 1, _CLONE_NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for number, argument, refused in _DENIED_ARGUMENTS[clone]:
        lines += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8 * argument),
            (_EQUAL, 0, 1, refused),
            (_RETURN, 0, 0, _REFUSE | _EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
    if local_sockets:
        lines += [
            (_EQUAL, 0, 3, denied["socket"]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
            (_EQUAL, 1, 0, _AF_UNIX),
            (_RETURN, 0, 0, _REFUSE | _EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
    allowed = {"socket", "bind", "listen"} if local_sockets else set()
    numbers = sorted(number for name, number in denied.items() if name not in allowed)
    lines += [(_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)]
    return [*lines, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)]
