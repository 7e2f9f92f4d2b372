"""The environment of Spark's JVM, which its Python workers inherit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import java_gateway

from fencepost.checkers.engine.session import _own_environment
from fencepost.harness.system.blas import BLAS_THREADS


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({BLAS_THREADS: "4"}, "4")], ids=["by default", "as it was given"])
def test_workers_start_no_threads_for_linear_algebra_unless_somebody_wants_them(tmp_path, monkeypatch, given, threads):
    started = []
    monkeypatch.setattr(java_gateway, "Popen", lambda *argv, env, **_: started.append(env))
    monkeypatch.delenv(BLAS_THREADS, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with _own_environment(SimpleNamespace(path=tmp_path, start=lambda start: start())):
        java_gateway.Popen("java", env={"PATH": "/bin", **given})
    (environment,) = started
    assert environment[BLAS_THREADS] == threads
