"""Slow disks without Kafka: the system call filter, the times of operations, and real processes whose writes are delayed."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost.clusters.fault_tools.disk_throttle import shared_page, system_calls, throttles
from fencepost.clusters.fault_tools.disk_throttle.system_calls import SystemCall
from fencepost.clusters.fault_tools.disk_throttle.throttle_program import OperationQueue
from fencepost.clusters.fault_tools.disk_throttle.throttles import Throttles
from fencepost.clusters.kafka.options import NO_THROTTLE
from fencepost.clusters.local import Local
from fencepost.harness.api import ClusterError, Throttleable

AARCH64 = (0xC00000B7, 64, 82, 63)  # AUDIT_ARCH, write, fsync, read
X86_64 = (0xC000003E, 1, 74, 0)
SLOW_MS, FOR_EVER_MS = 30.0, 600_000.0
PATIENCE_S = 120


# ---- the filter


def answer(machine, architecture, number, file=5, count=100):
    """The filter's answer to a call: an interpreter of classic BPF, as far as it is used."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, file, 0, count, 0, 0, 0)
    at, register, instructions = 0, 0, system_calls.program(machine)
    while True:
        code, yes, no, value = instructions[at]
        at += 1
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return {0x7FFF0000: "allow", 0x7FC00000: "notify"}[value]
        else:
            at += yes if (register == value if code == 0x15 else register > value) else no


@pytest.mark.parametrize(("machine", "numbers"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_the_filter_notifies_about_writes_and_syncs_and_nothing_else(machine, numbers):
    architecture, write, fsync, read = numbers
    assert {answer(machine, architecture, number) for number in system_calls.numbers(machine).values()} == {"notify"}
    assert answer(machine, architecture, write) == answer(machine, architecture, fsync, count=0) == "notify"
    assert answer(machine, architecture, read) == "allow"
    assert answer(machine, architecture, write, count=8) == "allow", "threads of a JVM wake one another"
    assert answer(machine, architecture, write, file=2) == "allow", "its log"
    assert answer(machine, architecture ^ 1, write) == "allow", "another architecture's numbers mean other calls"


def test_an_unknown_machine_is_an_error_with_its_name():
    with pytest.raises(OSError, match="not for vax"):
        system_calls.program("vax")


# ---- the times of operations


@pytest.fixture
def page():
    """A shared page."""
    descriptor = shared_page.make()
    yield shared_page.attach(descriptor)
    os.close(descriptor)


def slow(page, slot, number, delay_s=0.0, bytes_s=0.0):
    page.slots[slot].delay_s, page.slots[slot].bytes_s, page.slots[slot].number = delay_s, bytes_s, number


def gone(disk, now_s):
    return [call.id for call, *_ in disk.due(now_s)]


def call(number):
    return SystemCall(number, 0, 1, 5, 100)


def test_a_delay_applies_to_each_operation_by_itself(page):
    slow(page, 0, 1, delay_s=1.0)
    disk = OperationQueue(page)
    disk.add(call(1), 100, 10.0)
    disk.add(call(2), 100, 10.5)
    assert (gone(disk, 10.9), gone(disk, 11.0), gone(disk, 11.4), gone(disk, 11.5)) == ([], [1], [], [2])


def test_a_rate_makes_operations_wait_for_one_another(page):
    """A hundred bytes in a second; a sync has none, and passes."""
    slow(page, 0, 1, bytes_s=100.0)
    disk = OperationQueue(page)
    for number, size in ((1, 100), (2, 50), (3, 0)):
        disk.add(call(number), size, 0.0)
    assert (gone(disk, 0.9), gone(disk, 1.0), gone(disk, 1.5)) == ([], [1], [2, 3])


def test_two_faults_on_a_disk_add_up_and_end_independently(page):
    slow(page, 0, 1, delay_s=1.0)
    slow(page, 3, 2, delay_s=2.0)
    disk = OperationQueue(page)
    disk.add(call(1), 0, 0.0)
    assert gone(disk, 2.9) == []
    assert gone(disk, 3.0) == [1]
    page.slots[0].number = 0
    disk.add(call(2), 0, 3.0)
    assert gone(disk, 4.9) == []
    assert gone(disk, 5.0) == [2]


def test_waiting_operations_continue_when_the_last_fault_ends(page):
    slow(page, 0, 1, delay_s=1000.0)
    disk = OperationQueue(page)
    disk.add(call(1), 0, 0.0)
    page.slots[0].number = 0
    assert gone(disk, 0.1) == [1]


def test_a_later_fault_in_the_same_slot_starts_without_a_backlog(page):
    slow(page, 0, 1, bytes_s=1.0)
    disk = OperationQueue(page)
    disk.add(call(1), 1000, 0.0)
    slow(page, 0, 2, bytes_s=100.0)
    disk.add(call(2), 100, 0.0)
    assert gone(disk, 1.0) == [2]


def test_operations_count_for_the_faults_that_delayed_them(page):
    slow(page, 0, 1, delay_s=1.0)
    disk = OperationQueue(page)
    disk.count(100, 1.0, [1])
    disk.count(50, 3.0, [1])
    disk.count(7, 9.0, [2])
    slot = page.slots[0]
    assert (slot.operations, slot.bytes, slot.longest_s) == (2, 150, 3.0)


# ---- real processes


@pytest.fixture
def slow_disk(tmp_path):
    """One node, whose disk can be slow: `(throttles, start)`; `start(code)` runs Python with `f`, a file on its disk."""
    if trouble := throttles.trouble():
        pytest.skip(trouble)
    home, started = tmp_path / "data", []
    home.mkdir()
    made = Throttles({"n1": home})

    def start(code):
        begin = f"import os; f = os.open({str(home / 'file')!r}, os.O_WRONLY | os.O_CREAT, 0o600); "
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        with (tmp_path / "errors").open("w") as errors:
            started.append(made.start("n1", [sys.executable, "-c", begin + code], **quiet, stderr=errors))
        return started[-1]

    yield made, start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
    made.close()


def test_writes_to_the_data_directory_are_delayed_and_others_are_not(slow_disk, tmp_path):
    made, start = slow_disk
    number = made.slow(["n1"], SLOW_MS, 0.0)
    elsewhere = f"e = os.open({str(tmp_path / 'elsewhere')!r}, os.O_WRONLY | os.O_CREAT); os.write(e, bytes(5000)); os.fsync(e); "
    process = start(elsewhere + "os.write(f, bytes(100)); os.pwrite(f, bytes(50), 0); os.ftruncate(f, 10); os.fsync(f)")
    assert process.wait(PATIENCE_S) == 0
    held = made.end(number)["n1"]
    assert (held.operations, held.bytes) == (4, 150)
    assert held.longest_ms >= SLOW_MS
    assert (tmp_path / "data" / "file").stat().st_size == 10
    assert made.end(number) == {}


def test_without_a_fault_no_operation_is_delayed(slow_disk):
    made, start = slow_disk
    made.end(made.slow(["n1"], FOR_EVER_MS, 0.0))
    assert start("os.write(f, bytes(100)); os.fsync(f)").wait(PATIENCE_S) == 0


def test_a_waiting_thread_is_seen_in_proc_and_continues_when_the_fault_ends(slow_disk):
    """The delay is ten minutes; the kernel shows the thread in its call all the time."""
    made, start = slow_disk
    number = made.slow(["n1"], FOR_EVER_MS, 0.0)
    process = start("os.fsync(f)")
    assert seen_waiting(made, process, SLOW_MS) >= SLOW_MS
    assert process.poll() is None
    made.end_all()
    assert made.held_back(number) == {}
    assert process.wait(PATIENCE_S) == 0


def seen_waiting(made, process, enough_ms):
    deadline, seen = time.monotonic() + PATIENCE_S, 0.0
    while seen < enough_ms and time.monotonic() < deadline:
        seen = made.waits({"n1": process.pid}, 0.1)["n1"]
    return seen


def test_the_disk_stays_slow_for_the_next_process(slow_disk):
    made, start = slow_disk
    number = made.slow(["n1"], SLOW_MS, 0.0)
    for _ in range(2):
        assert start("os.fsync(f)").wait(PATIENCE_S) == 0
    assert made.end(number)["n1"].operations == 2


def test_the_throttle_program_ends_with_the_status_of_its_process(slow_disk, tmp_path):
    _, start = slow_disk
    assert start("os._exit(7)").wait(PATIENCE_S) == 7
    killed = start("import time; time.sleep(600)")
    killed.kill()
    assert killed.wait(PATIENCE_S) == -9
    assert not Path(f"/proc/{killed.pid}").exists()
    assert (tmp_path / "errors").read_text() == ""


def test_a_process_that_waits_for_the_disk_can_be_killed(slow_disk):
    made, start = slow_disk
    made.slow(["n1"], FOR_EVER_MS, 0.0)
    process = start("os.fsync(f)")
    assert seen_waiting(made, process, SLOW_MS)
    process.kill()
    assert process.wait(PATIENCE_S) == -9


def test_the_process_dies_with_its_throttle_program(slow_disk):
    """Without the program every write would fail: no process would answer the notifications."""
    _, start = slow_disk
    process = start("import time; time.sleep(600)")
    process._program.kill()
    assert process.wait(PATIENCE_S) == -9
    deadline = time.monotonic() + PATIENCE_S
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(process.pid)


def alive(pid):
    """True if it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_process_that_cannot_be_started_writes_the_reason(slow_disk, tmp_path):
    made, _ = slow_disk
    with (tmp_path / "errors").open("w") as errors:
        process = made.start("n1", ["/nowhere/java"], stdin=subprocess.DEVNULL, stderr=errors)
    assert process.wait(PATIENCE_S) == 126
    assert "/nowhere/java cannot be started" in (tmp_path / "errors").read_text()


def test_more_faults_than_slots_are_an_error(slow_disk):
    made, _ = slow_disk
    for _ in range(shared_page.SLOTS):
        made.slow(["n1"], SLOW_MS, 0.0)
    with pytest.raises(ClusterError, match="8 faults slow that disk already"):
        made.slow(["n1"], SLOW_MS, 0.0)


# ---- where there is none


def test_without_slow_disks_the_reason_names_the_option():
    assert Local().missing()[Throttleable] == NO_THROTTLE


def test_without_seccomp_notifications_the_reason_is_the_kernels(monkeypatch):
    monkeypatch.setattr(system_calls, "_MACHINES", {"vax": (0, {})})
    throttles.trouble.cache_clear()
    try:
        assert "known for vax, not for" in Local(slow_disks=True).missing()[Throttleable]
    finally:
        throttles.trouble.cache_clear()
