"""The memory that this process may still take, by the kernel's files."""

from fencepost.harness.system.memory import available_memory

MIB = 1 << 20


def machine(folder, mib):
    """A machine with so much memory to be had."""
    (folder / "meminfo").write_text(f"MemTotal:  99999999 kB\nMemAvailable:  {mib << 10} kB\n")
    (folder / "cgroup").write_text("0::/jobs/mine\n")
    return folder / "meminfo", folder / "groups", folder / "cgroup"


def group(folder, limit, used, cached):
    """A control group with a limit."""
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\nactive_file 7\n")


def test_a_machine_without_control_groups(tmp_path):
    assert available_memory(*machine(tmp_path, 500)) == 500 * MIB


def test_the_narrowest_control_group_counts(tmp_path):
    files = machine(tmp_path, 500)
    group(tmp_path / "groups/jobs", 400 * MIB, 300 * MIB, 100 * MIB)
    group(tmp_path / "groups/jobs/mine", "max", 50 * MIB, 0)
    assert available_memory(*files) == 200 * MIB


def test_a_full_control_group_has_nothing_left(tmp_path):
    files = machine(tmp_path, 500)
    group(tmp_path / "groups/jobs/mine", 10 * MIB, 11 * MIB, 0)
    assert available_memory(*files) == 0


def test_a_control_group_of_version_1_counts_too(tmp_path):
    """Beside version 2, which then has no memory to give; also where only the container's own group is to be seen."""
    meminfo, groups, own = machine(tmp_path, 500)
    own.write_text("5:cpu,cpuacct:/jobs\n4:memory:/jobs/mine\n1:name=systemd:/\n0::/\n")
    folder = groups / "memory/jobs/mine"
    folder.mkdir(parents=True)
    for at, most in ((folder, 300 * MIB), (groups / "memory", (1 << 63) - 4096)):
        (at / "memory.limit_in_bytes").write_text(f"{most}\n")
        (at / "memory.usage_in_bytes").write_text(f"{250 * MIB}\n")
        (at / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {30 * MIB}\n")
    assert available_memory(meminfo, groups, own) == 80 * MIB
    own.write_text("4:memory:/elsewhere\n")
    (groups / "memory/memory.limit_in_bytes").write_text(f"{260 * MIB}\n")
    assert available_memory(meminfo, groups, own) == 40 * MIB


def test_unreadable_files_are_no_limit(tmp_path):
    assert available_memory(tmp_path, tmp_path, tmp_path) > 1 << 50
