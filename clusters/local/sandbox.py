"""The namespaces that this machine offers, by a trial, and the command line that enters them.

Best is one user, network, mount and PID namespace around everything (unshare(1), namespaces(7)): no root, nothing can
leak, the end of the first process is the end of all. Where that is refused, the supervisor alone remains: brokers share the
loopback interface and links between them cannot be dropped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fencepost.harness.system import programs
from fencepost.harness.system.python_command import module_command

_FLAGS = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
_TRIAL_S = 60.0


@dataclass(frozen=True)
class NamespaceSupport:
    """The command that makes the namespaces (`prefix`, before the supervisor), or why there is none (`reason`).

    missing: name of a capability -> why it cannot be had in them.
    """

    prefix: tuple[str, ...] = ()
    reason: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespaces(self) -> bool:
        return not self.reason


@lru_cache(maxsize=1)
def namespace_support() -> NamespaceSupport:
    """The namespaces that this machine offers, by a trial (about a second), once per process."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return NamespaceSupport(reason="network namespaces need the program `unshare`: install util-linux")
    attempts = [(unshare, "--user", "--map-root-user", *_FLAGS), (unshare, *_FLAGS)]
    troubles = []
    for prefix in attempts:
        trouble, missing = _try(prefix)
        if not trouble:
            return NamespaceSupport(prefix=prefix, missing=missing)
        troubles.append(trouble)
    return NamespaceSupport(reason=f"network namespaces cannot be used here ({troubles[0]}){remedy()}")


def _try(prefix: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Build a network of two nodes and drop a link in it: empty when it worked, else the error; and the missing capabilities."""
    argv = [*prefix, *module_command("fencepost.clusters.local.network")]
    try:
        done = programs.run(argv, _TRIAL_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {_TRIAL_S:.0f} s", {}
    except OSError as error:
        return f"{prefix[0]} cannot be started: {error.strerror}", {}
    if done.returncode == 0:
        return "", json.loads(done.stdout)
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}", {}


def remedy(sysctls: Path = Path("/proc/sys")) -> str:
    """The remedy for a refusal, as far as the kernel's settings show the cause."""
    if _sysctl(sysctls / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "; this kernel restricts them through AppArmor: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if _sysctl(sysctls / "user/max_user_namespaces") == "0":
        return "; user namespaces are switched off: sudo sysctl -w user.max_user_namespaces=10000"
    if _sysctl(sysctls / "kernel/unprivileged_userns_clone") == "0":
        return "; user namespaces are for root only: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    return "; in a container, start it with more privileges (docker run --privileged), or run on the host"


def _sysctl(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def command(argv: Sequence[str], *, loopback: bool = False) -> list[str]:
    """The command line that runs `argv` under the supervisor, in namespaces unless `loopback` or refused."""
    support = NamespaceSupport(reason="not wanted") if loopback else namespace_support()
    options = ["--namespaces"] if support.namespaces else []
    return [*support.prefix, *module_command("fencepost.clusters.local.init", *options, "--", *argv)]
