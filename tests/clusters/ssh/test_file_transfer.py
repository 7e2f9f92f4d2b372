"""Tars between a host and us: plain files and directories below the target, so many and so large, and nothing else."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile

import pytest
from support.longer import given_longer

from fencepost.clusters.ssh import install
from fencepost.clusters.ssh.host import HostAddress, Login, SshHost, require_reachable
from fencepost.clusters.ssh.remote import file_transfer
from fencepost.clusters.ssh.remote.file_transfer import UnsafeTar
from fencepost.harness.api import ClusterError


def a_tar(*members, form=tarfile.GNU_FORMAT):
    """A tar of (name, type, content or target of a link)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                entry.linkname = content
            elif kind == tarfile.REGTYPE:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if kind == tarfile.REGTYPE else None)
    made.seek(0)
    return made


def plain(name, content=b"content"):
    return (name, tarfile.REGTYPE, content)


def link(name, target, kind=tarfile.SYMTYPE):
    return (name, kind, target)


def with_size(name, size):
    """A header that claims a size, and nothing behind it."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    return io.BytesIO(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


HOSTILE = {
    "above the target": a_tar(plain("../outside")),
    "above the target, inside a name": a_tar(plain("a/../../outside")),
    "a directory above the target": a_tar(("../outside", tarfile.DIRTYPE, b"")),
    "an absolute name": a_tar(plain("/tmp/fencepost-outside")),
    "a symbolic link": a_tar(link("a", ".."), plain("a/outside")),
    "a link to a file elsewhere": a_tar(link("a", "../outside"), plain("a")),
    "a hard link": a_tar(link("a", "../outside", tarfile.LNKTYPE)),
    "a FIFO": a_tar(("a", tarfile.FIFOTYPE, b"")),
    "a device": a_tar(("a", tarfile.CHRTYPE, b"")),
    "an unknown type": a_tar(("a", b"V", b"")),
    "an extended header": a_tar(plain("\u00e9" * 200), form=tarfile.PAX_FORMAT),
    "the target itself": a_tar(plain(".")),
    "a file where a directory is": a_tar(("a", tarfile.DIRTYPE, b""), plain("a")),
    "a directory where a file is": a_tar(plain("a"), plain("a/b")),
    "a negative size": with_size("a", -512),
    "a size that fills every disk": with_size("a", 1 << 60),
    "too many files": a_tar(*(plain(f"f{number}", b"") for number in range(11))),
    "too many bytes": a_tar(plain("a", bytes(700)), plain("b", bytes(400))),
    "a name that is too long to be stored": a_tar(plain("n" * 300)),
    "a directory with a name that is too long": a_tar(("d" * 300, tarfile.DIRTYPE, b"")),
    "a name of many bytes": a_tar(plain("d/" * 3000 + "f")),
}


@pytest.mark.parametrize("tar", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_tar_writes_nothing_outside_of_the_target(tmp_path, tar):
    target = tmp_path / "target"
    target.mkdir()
    tar.seek(0)
    with pytest.raises(UnsafeTar):
        file_transfer.unpack(tar, target, most_files=10, most_bytes=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert not any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in target.rglob("*"))


def test_a_link_that_lies_in_the_target_already_is_not_followed(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "target" / "file").symlink_to(tmp_path / "outside")
    (tmp_path / "target" / "directory").symlink_to(tmp_path)
    for name in ("file", "directory/outside"):
        with pytest.raises(UnsafeTar):
            file_transfer.unpack(a_tar(plain(name)), tmp_path / "target")
    assert (tmp_path / "outside").read_text() == "mine"


def test_what_one_side_packs_the_other_unpacks(tmp_path):
    """Long names, names of other alphabets, empty directories, fractions of a second in times."""
    data, target = tmp_path / "data", tmp_path / "target"
    names = ("t-0/00000000000000000000.log", "d" * 80 + "/" + "f" * 120, "\u00e9t\u00e9/file", "meta.properties")
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name)
        os.utime(data / name, ns=(123_456_789, 1_234_567_890_123_456_789))
    (data / "empty").mkdir()
    (data / "t-0" / "00000000000000000000.index").write_text("can be rebuilt")
    stream = io.BytesIO()
    file_transfer.pack(data, stream)
    stream.seek(0)
    file_transfer.unpack(stream, target)
    assert {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()} == {
        name: name for name in names
    }
    assert (target / "empty").is_dir()


@pytest.mark.parametrize("name", ["{checksum}/../../outside", "../outside", "{checksum}", "{checksum}/a/b.jar", "/{checksum}/a"])
def test_jars_have_one_name_below_their_checksum(tmp_path, name):
    named = name.format(checksum=hashlib.sha256(b"content").hexdigest())
    with pytest.raises(UnsafeTar):
        file_transfer.receive(a_tar(plain(named)), tmp_path / "jars")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# ---- what a host answers


class Answers(SshHost):
    """A host that answers what it is given, whatever it is asked."""

    def __init__(self, output=b"", tar=None):
        super().__init__(HostAddress("h"), Login())
        self.output, self.tar, self.directory = output, tar, "/d"

    def run(self, command, feed=lambda _: None, *, called=""):
        return self.output

    def channel(self, command):
        return _Channel(self.tar)

    def install_program(self, directory):
        pass


class _Channel:
    """The channel of a program that writes a tar and ends well."""

    def __init__(self, tar):
        self.makefile = lambda *_: tar
        self.status_event = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def settimeout(self, _):
        pass

    def wait(self, _):
        return True

    def recv_exit_status(self):
        return 0


def test_log_segments_that_would_be_written_elsewhere_are_refused_with_the_host(tmp_path):
    with pytest.raises(ClusterError, match=r"h:22: its log segments are refused: '\.\./outside' is not a plain file"):
        install.fetch_storage(Answers(tar=a_tar(plain("../outside"))), "/d/runs/r", tmp_path / "storage" / "n1")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("output", [b"no JSON", b"[" * 100_000, b'{"python": "3.11"}', b"[]", b'{"java": 3, "more": "x"}'])
def test_an_answer_that_is_none_is_one_sentence(output):
    with pytest.raises(ClusterError, match=r"^h:22 "):
        install.inspect_host(Answers(output), "/d", "java")


def test_only_jars_are_sent_whatever_a_host_wants(tmp_path):
    class Kafka:
        version, directory, jars = "4.3.0", tmp_path, {}

    with pytest.raises(ClusterError, match=r"h:22 wants files that are no jars of Kafka 4\.3\.0: \['/etc/passwd'\]"):
        install.install(Answers(b'["/etc/passwd"]'), Kafka())


def test_hosts_that_do_not_answer_are_named_at_once_and_together():
    """One refuses, the name of another does not exist; a third is there."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = there.getsockname()
        hosts = [
            SshHost(HostAddress(host, port=port), Login())
            for host, port in (("127.0.0.1", 1), ("no-such-host.invalid", 22), address)
        ]

        def named(within_s):
            with pytest.raises(ClusterError) as caught:
                require_reachable(hosts, within_s)
            return str(caught.value)

        text = given_longer(named, lambda text: "refused" in text and f":{address[1]}:" not in text)
    assert "127.0.0.1:1: Connection refused; no-such-host.invalid:22: " in text
    assert f":{address[1]}:" not in text
