"""One host: the ssh connection, programs run over it, and our own program that is copied there.

The host key is checked against known_hosts. A wrong host key and a refused login are final. Every other failure of a connection
(`CONNECTION_ERRORS`) says nothing about the host, and callers connect again.
"""

from __future__ import annotations

import getpass
import hashlib
import io
import shlex
import socket
import threading
import time
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import paramiko

import fencepost
from fencepost.harness.api import ClusterError
from fencepost.harness.system.answers import WrongAnswer, decoded

T = TypeVar("T")

SSH_PORT = 22
_CONNECT_S, QUIET_S, _ALIVE_EVERY_S = 6.0, 120.0, 5
REACHABLE_S = 8.0
_LONGEST_S = 900.0  # for a whole answer, however slowly it comes
MOST_ANSWER, _MOST_ERRORS = 64 << 20, 1 << 16  # bytes
_SOURCES = Path(__file__).parent
_ROOT = Path(fencepost.__file__).parents[1]
# modules that hosts use too, standard library only
_SHARED_MODULES = (
    "clusters/kafka/log_segments",
    "clusters/kafka/node_directory",
    "clusters/kafka/transaction_state",
    "clusters/fault_tools/delay_process",
    "clusters/fault_tools/delay_program",
    "clusters/fault_tools/disks",
    "clusters/fault_tools/faketime",
    "clusters/fault_tools/packet_queue",
    "clusters/fault_tools/unsynced_data",
    "clusters/fault_tools/probes",
    "harness/api/stored_kinds",
    "harness/system/processes",
    "harness/system/wall_clock",
)

# Runs before our program is there: stores it from standard input unless it is there, and prints its directory. That must be ours:
# others on the host who could write into it could have us run a program of theirs.
_INSTALL_PROGRAM = """
import os, sys
if sys.version_info < (3, 9):
    sys.exit("Python %d.%d; 3.9 or newer is needed" % sys.version_info[:2])
os.umask(0o077)
directory, name = os.path.abspath(os.path.expanduser(sys.argv[1])), sys.argv[2]
program = os.path.join(directory, name)
os.makedirs(directory, exist_ok=True)
found = os.lstat(directory)
if os.path.islink(directory) or found.st_uid != os.getuid() or found.st_mode & 0o022:
    sys.exit("%s must be a directory of user %d, which others may not write into (mode 0700)" % (directory, os.getuid()))
data, part = sys.stdin.buffer.read(), "%s.%d" % (program, os.getpid())
if not os.path.exists(program) or open(program, "rb").read() != data:
    with open(part, "wb") as out:
        out.write(data)
    os.replace(part, program)
print(directory)
"""

_CHATTY = "Does its login shell print anything of its own?"
CONNECTION_ERRORS = (OSError, EOFError, paramiko.SSHException)


class HostRefused(ClusterError):
    """A wrong host key, or a refused login: trying again does not help."""


@dataclass(frozen=True)
class HostAddress:
    """`user@host:port`, of which only the host must be given."""

    host: str
    user: str = ""
    port: int = SSH_PORT

    @classmethod
    def read(cls, text: str) -> HostAddress:
        """Raises ValueError."""
        user, _, host_and_port = text.rpartition("@")
        host, colon, port = host_and_port.partition(":")
        if not host or (colon and not port.isdigit()):
            raise ValueError(f'"{text}": must be host, user@host or user@host:port')
        return cls(host, user, int(port or SSH_PORT))

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}" if self.user else f"{self.host}:{self.port}"

    @property
    def known_as(self) -> str:
        """Its name in known_hosts."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"


@dataclass(frozen=True)
class Login:
    """The login at hosts. Empty: as ssh(1) does by default.

    user: where the address has none.
    key: the file of the private key.
    known_hosts: the file with the hosts' keys.
    verify: compare a host's key with known_hosts.
    """

    user: str = ""
    key: str = ""
    known_hosts: str = ""
    verify: bool = True


class _NotKnown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Refuses a host that is not in known_hosts; the error has its fingerprint."""

    def __init__(self, address: HostAddress) -> None:
        self._address = address

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        digest = b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        raise HostRefused(
            f"{self._address} is not in known_hosts (its {key.get_name()} key is SHA256:{digest}): if that is the host you mean, "
            f"ssh-keyscan -p {self._address.port} {self._address.host} >> ~/.ssh/known_hosts; `known_hosts` names another file"
        )


class SshHost:
    """A host that runs our programs, several at a time. Safe to use from several threads.

    After `carry`, `directory` is the absolute path of the program's directory there. Methods raise one of
    `CONNECTION_ERRORS` when the connection ends.
    """

    def __init__(self, address: HostAddress, login: Login, python: str = "python3") -> None:
        self.address, self._login, self._python = address, login, python
        self.user = address.user or login.user or getpass.getuser()
        self._client: paramiko.SSHClient | None = None
        self._connecting = threading.Lock()
        self.directory = ""

    # ---- the connection

    def transport(self) -> paramiko.Transport:
        """The connection; a new one when it has ended. Raises HostRefused."""
        with self._connecting:
            transport = self._client.get_transport() if self._client else None
            if transport is None or not transport.is_active():
                self.drop()
                self._client = self._connect()
                transport = self._client.get_transport()
            assert transport is not None
            return transport

    def drop(self) -> None:
        """Close the connection; the next use makes another."""
        client, self._client = self._client, None
        if client:
            client.close()

    def _connect(self) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        try:
            self._trust(client)
            sock = socket.create_connection((self.address.host, self.address.port), timeout=_CONNECT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            key = str(Path(self._login.key).expanduser())
            own = {"key_filename": key, "look_for_keys": False, "allow_agent": False} if self._login.key else {}
            limits = {"timeout": _CONNECT_S, "banner_timeout": _CONNECT_S, "auth_timeout": _CONNECT_S}
            client.connect(self.address.host, self.address.port, self.user, sock=sock, **limits, **own)
        except BaseException as error:
            client.close()
            if reason := self._reason(error):
                raise HostRefused(reason) from error
            raise
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(_ALIVE_EVERY_S)
        return client

    def _trust(self, client: paramiko.SSHClient) -> None:
        if not self._login.verify:
            client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
            return
        client.set_missing_host_key_policy(_NotKnown(self.address))
        if self._login.known_hosts:
            try:
                client.load_system_host_keys(str(Path(self._login.known_hosts).expanduser()))
            except OSError as error:
                raise HostRefused(f'known_hosts = "{self._login.known_hosts}" cannot be read: {error.strerror}') from error
        else:
            client.load_system_host_keys()

    def _reason(self, error: BaseException) -> str:
        """The reason why another attempt is useless; empty when it may help."""
        if isinstance(error, paramiko.BadHostKeyException):
            return (
                f"{self.address} shows another host key than known_hosts has for it: either somebody stands in between, or the "
                f"host was installed anew. If you know that it was: ssh-keygen -R '{self.address.known_as}', then add its new key"
            )
        if isinstance(error, paramiko.PasswordRequiredException):
            return f"the key {self._login.key} has a passphrase: give it to an ssh agent, and leave `key` out"
        if isinstance(error, paramiko.AuthenticationException):
            shown = f"the key {self._login.key}" if self._login.key else "the keys of ~/.ssh and of the agent"
            return (
                f"{self.address} does not let {self.user} in with {shown}: {error}. Is its public half in authorized_keys there?"
            )
        if isinstance(error, (FileNotFoundError, PermissionError)) and self._login.key:
            return f'key = "{self._login.key}" cannot be read: {error.strerror}'
        return ""

    # ---- programs

    def program(self, *words: str) -> str:
        """The command line of our program there."""
        return shlex.join([self._python, f"{self.directory}/{package()[0]}", *words])

    def channel(self, command: str) -> paramiko.Channel:
        """Start a program; the channel of its standard streams."""
        channel = self.transport().open_session(timeout=_CONNECT_S)
        channel.exec_command(command)
        return channel

    def run(self, command: str, feed: Callable[[Any], None] = lambda _: None, *, called: str = "") -> bytes:
        """Run a program; its output. `feed` writes its standard input; `called` names it in errors.

        Raises ClusterError with its error output when it fails.
        """
        channel = self.channel(command)
        channel.settimeout(QUIET_S)
        with channel, channel.makefile_stdin("wb", -1) as stdin:
            errors: list[bytes] = []
            reader = threading.Thread(target=_read_errors, args=(channel, errors), daemon=True)
            reader.start()
            try:
                feed(stdin)
                stdin.flush()
                channel.shutdown_write()
            except OSError:
                if not channel.exit_status_ready():
                    raise
            out, deadline = bytearray(), time.monotonic() + _LONGEST_S
            while read := channel.recv(1 << 16):
                out += read
                if time.monotonic() > deadline:
                    raise ClusterError(f"{self.address}: {called or command} was still answering after {_LONGEST_S:.0f} s")
                if len(out) > MOST_ANSWER:
                    raise ClusterError(f"{self.address}: {called or command} answers more than {MOST_ANSWER >> 20} MiB")
            reader.join(QUIET_S)
            status = exit_status(channel, QUIET_S)
        if status == -1:
            raise EOFError(f"the connection to {self.address} ended")
        if status != 0:
            lines = b"".join(errors).decode(errors="replace").strip().splitlines()
            raise ClusterError(f"{self.address}: {called or command} ended with status {status}: {' / '.join(lines[-3:])}")
        return bytes(out)

    def ask(self, shape: type[T], *words: str, feed: Callable[[Any], None] = lambda _: None) -> T:
        """The answer of our program, from JSON. Raises ClusterError for an answer of another shape."""
        return answer(self.run(self.program(*words), feed, called=f"the watcher's `{words[0]}`"), str(self.address), shape)

    def install_program(self, directory: str) -> None:
        """Copy our program into `directory` there, unless it is there. Raises ClusterError: no Python, or not writable."""
        name, data = package()
        command = shlex.join([self._python, "-c", _INSTALL_PROGRAM, directory, name])
        called = f"`{self._python}`, asked to write into {directory} (other options: `python`, 3.9 or newer, and `directory`),"
        printed = self.run(command, lambda stdin: stdin.write(data), called=called).decode(errors="replace").strip()
        if not printed.startswith("/") or "\n" in printed or "\0" in printed:
            raise ClusterError(f"{self.address} names no directory for our program, but {printed[:100]!r}: {_CHATTY}")
        self.directory = printed


def answer(line: bytes, host: str, shape: type[T]) -> T:
    """The answer of a program on a host. Raises ClusterError when that has another shape."""
    try:
        return decoded(line, shape)
    except WrongAnswer as error:
        raise ClusterError(f"{host} answers what cannot be understood: {error}. {_CHATTY}") from error


def exit_status(channel: paramiko.Channel, within_s: float) -> int:
    """The exit status of a program whose output has ended; -1 where the host does not say."""
    return int(channel.recv_exit_status()) if channel.status_event.wait(within_s) else -1


def _read_errors(channel: paramiko.Channel, errors: list[bytes]) -> None:
    while data := channel.recv_stderr(1 << 16):
        errors[:] = [(b"".join(errors) + data)[-_MOST_ERRORS:]]


def require_reachable(hosts: Iterable[SshHost], within_s: float = REACHABLE_S) -> None:
    """Connect to the ports of all hosts at once. Raises ClusterError with those that have not answered by then, and why.

    Without it, an address that swallows packets takes the time of several logins until it is named.
    """
    wanted = list(dict.fromkeys(host.address for host in hosts))
    last = dict.fromkeys(wanted, f"no answer within {within_s:g} s")
    deadline = time.monotonic() + within_s
    threads = [threading.Thread(target=_connect_once, args=(address, last, deadline), daemon=True) for address in wanted]
    for thread in threads:  # a thread each, since a name may be looked up for longer than its time
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if failed := [f"{address}: {reason}" for address, reason in last.items() if reason]:
        raise ClusterError(
            f"no host answers at {'; '.join(failed)}. Is it switched on, and are name and port right (the option `hosts`)?"
        )


def _connect_once(address: HostAddress, last: dict[HostAddress, str], deadline: float) -> None:
    """Try until the deadline; `last` gets the reason why there is no connection, empty when there is one."""
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            socket.create_connection((address.host, address.port), timeout=left_s).close()
        except TimeoutError:
            return  # as it is in `last`
        except (OSError, UnicodeError) as error:
            last[address] = str(getattr(error, "strerror", None) or error)
            time.sleep(min(0.3, left_s))
        else:
            last[address] = ""
            return


def retry_dropped(host: SshHost, what: str, act: Callable[[], Any], limit_s: float) -> Any:
    """The result of an idempotent action, repeated when the connection drops. Raises ClusterError at the deadline."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return act()
        except CONNECTION_ERRORS as error:
            host.drop()
            if time.monotonic() > deadline:
                raise ClusterError(unreachable(host, what, limit_s, error)) from error
            time.sleep(0.2)


def unreachable(host: SshHost, what: str, limit_s: float, last: BaseException) -> str:
    reason = str(last) or type(last).__name__
    command = f"ssh -p {host.address.port} {host.user}@{host.address.host}"
    return f"{host.address} could not be reached to {what}, {limit_s:.0f} s long; last: {reason}. Does `{command}` work?"


@lru_cache(maxsize=1)
def package() -> tuple[str, bytes]:
    """The program for hosts: a file name with its checksum, and a zip of `remote/` and the modules it shares with the harness."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _program_files():
            content = b"" if path.name == "__init__.py" else path.read_bytes()  # packages themselves import more than hosts have
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(_ROOT))), content)
        start = "import sys\nfrom fencepost.clusters.ssh.remote.commands import main\nsys.exit(main(sys.argv[1:]))\n"
        archive.writestr(zipfile.ZipInfo("__main__.py"), start)
    return f"watcher-{hashlib.sha256(made.getvalue()).hexdigest()[:16]}.pyz", made.getvalue()


def _program_files() -> Iterable[Path]:
    shared = [_ROOT / "fencepost" / f"{name}.py" for name in _SHARED_MODULES]
    inside = {path.parent for path in shared} | {_ROOT / "fencepost", _ROOT / "fencepost/harness", _SOURCES.parent, _SOURCES}
    packages = {directory / "__init__.py" for directory in inside}
    return [*sorted(packages), *shared, *sorted((_SOURCES / "remote").glob("*.py"))]
