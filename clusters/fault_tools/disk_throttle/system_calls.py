"""The system calls that write and sync, and the filter that notifies us of each of them: seccomp(2), seccomp_unotify(2).

A filter sees numbers, not what a file descriptor refers to, so it notifies us of writes to sockets too. It leaves out standard
streams, and the few bytes with which threads of a JVM wake one another. It leaves out `writev` and `sendfile` as well: Kafka uses
them for sockets only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from dataclasses import dataclass

# machine -> its name for the kernel (AUDIT_ARCH_...), and numbers of calls
_MACHINES = {
    "x86_64": (
        0xC000003E,
        {
            "seccomp": 317,
            "write": 1,
            "pwrite64": 18,
            "ftruncate": 77,
            "fallocate": 285,
            "fsync": 74,
            "fdatasync": 75,
            "msync": 26,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "seccomp": 277,
            "write": 64,
            "pwrite64": 68,
            "ftruncate": 46,
            "fallocate": 47,
            "fsync": 82,
            "fdatasync": 83,
            "msync": 227,
        },
    ),
}
WRITES = ("write", "pwrite64")  # their third argument is a number of bytes
_FEWEST, _LAST_STREAM = 8, 2  # a `write` of at most so many bytes, or to a file descriptor up to this, makes no notification

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _SPEC_ALLOW, _NEW_LISTENER = 1, 4, 8
_RECV, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104  # ioctls
_WAKE_UP_HERE = 1  # SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: halves what a notification costs
_CONTINUE = 1
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_NR, _ARCH, _ARGUMENT = 0, 4, 16  # places in seccomp_data; an argument has 8 bytes
_LOAD, _EQUAL, _GREATER, _RETURN = 0x20, 0x15, 0x25, 0x06  # instructions of the filter
_NOTICE, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")

_libc = ctypes.CDLL(None, use_errno=True)


def numbers(machine: str = "") -> dict[str, int]:
    """Name -> number of the calls with a notification, on this machine. Raises OSError where they are not known."""
    known = dict(_of(machine)[1])
    del known["seccomp"]
    return known


def _of(machine: str) -> tuple[int, dict[str, int]]:
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise OSError(f"the numbers of system calls are known for {' and '.join(_MACHINES)}, not for {machine}")
    return _MACHINES[machine]


def is_within(data: str, thread: int, file: int) -> bool:
    """Return whether a thread's open file is that directory, which ends with a slash, or is below it."""
    try:
        return (os.readlink(f"/proc/{thread}/fd/{file}") + "/").startswith(data)
    except OSError:  # the thread is gone
        return False


def program(machine: str = "") -> list[tuple[int, int, int, int]]:
    """The filter: instructions (code, jump if true, jump if false, value) of classic BPF."""
    architecture, (write, *others) = _of(machine)[0], numbers(machine).values()
    count = len(others)
    return [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 0, count + 2, architecture),
        (_LOAD, 0, 0, _NR),
        (_EQUAL, count + 1, 0, write),
        *((_EQUAL, count + 5 - i, 0, number) for i, number in enumerate(others)),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _ARGUMENT + 2 * 8),
        (_GREATER, 0, 2, _FEWEST),
        (_LOAD, 0, 0, _ARGUMENT),
        (_GREATER, 1, 0, _LAST_STREAM),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]


def install() -> int:
    """Put this thread, and every program it becomes or starts, under the filter; the file descriptor of its notifications.

    Raises OSError.
    """
    instructions = program()
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions))
    whole = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return _checked(_libc.syscall(_of("")[1]["seccomp"], _SET_MODE_FILTER, _NEW_LISTENER | _SPEC_ALLOW, whole))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"no filter of system calls: {os.strerror(ctypes.get_errno())}")
    return result


@dataclass(frozen=True)
class SystemCall:
    """A system call that waits for our answer: its notification id, the thread, which call, its first and third argument."""

    id: int
    thread: int
    number: int
    file: int
    size: int


class Listener:
    """The notifications of a filter, and the answers to them. Readable when there is one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        try:
            fcntl.ioctl(descriptor, _SET_FLAGS, _WAKE_UP_HERE)
        except OSError:  # before Linux 6.6
            return

    def fileno(self) -> int:
        return self._descriptor

    def take(self) -> SystemCall | None:
        """The next call; None when its thread is gone, or was interrupted."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._descriptor, _RECV, notice)
        except OSError:
            return None
        id_, thread, _, number, _, _, file, _, size, *_ = _NOTICE.unpack(notice)
        return SystemCall(id_, thread, number, file & 0xFFFFFFFF, size)

    def let_go(self, call: SystemCall) -> bool:
        """Let a call continue; False when its thread no longer waits."""
        try:
            fcntl.ioctl(self._descriptor, _SEND, _ANSWER.pack(call.id, 0, 0, _CONTINUE))
        except OSError:
            return False
        return True
