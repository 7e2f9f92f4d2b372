"""The Spark session: local by default, quiet, and tuned for many small checks and a few large ones."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from py4j import protocol
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

import fencepost
from fencepost.checkers.engine.class_archive import archive_options
from fencepost.checkers.model.freed_memory import KEPT
from fencepost.harness.api.errors import MachineError
from fencepost.harness.secrets import environment_without_secrets
from fencepost.harness.system import liveness
from fencepost.harness.system.blas import BLAS_THREADS
from fencepost.harness.system.python_command import interpreter_script

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.sql.files.openCostInBytes": "1m",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.python.worker.reuse": "true",
    "spark.shuffle.compress": "false",  # what we send is compressed
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # Python workers keep freed memory (`freed_memory`), from their start on, of all threads, until they are told to release it.
    "spark.executorEnv.MALLOC_MMAP_MAX_": "0",
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(KEPT),
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# A small young generation: a quarter less memory, for the driver has little that lives short, and no more processor time.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmn16m"
LOCAL = {  # executors on this machine only
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "fencepost.checkers.engine.worker_daemon",
}
_LOG4J = """
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def start_session(master: str = "local[*]", memory: str = "768m", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session for checking (or the one there is). `memory` is the driver's heap; only the first call in a process sets it.

    conf: Spark's settings, laid over ours. Raises HarnessError when the JVM does not start (`conf` may name packages).
    Adaptive execution is off: the plan is one shuffle of a few large rows, and planning it twice costs more than it brings.
    The JVM only moves packed rows about, so a small heap, the serial collector and the quick compiler suit it best.
    """
    local = master.startswith("local")
    os.environ["PYSPARK_PYTHON"] = _interpreter(local)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    given = {**SETTINGS, **(LOCAL if local else {}), "spark.driver.memory": memory, **(conf or {})}
    settings = SparkConf().setMaster(_with_retry(master)).setAppName("fencepost").setAll(list(given.items()))
    scratch, context = None, SparkContext._active_spark_context
    if context is None:
        scratch = liveness.TemporaryPlace("spark")
        if local:
            os.environ["PYSPARK_PYTHON"] = _own_interpreter(scratch.path)
        atexit.register(_end, scratch)
        own = {"spark.local.dir": str(scratch.path)} if local else {}
        # not by what `settings` has: a SparkConf knows the settings of the JVM, which may be those of a session before
        settings.setAll([*{**own, **(conf or {}), JAVA_OPTIONS: _java_options(scratch.path, conf or {})}.items()])
        context = _new_context(settings, scratch)
    context.setLogLevel("ERROR")
    return cast(SparkSession, _LazySession(context, settings, scratch))


def _java_options(scratch: Path, conf: Mapping[str, str]) -> str:
    """Options of the driver's JVM, with those of `conf`; its log's settings lie in `scratch`."""
    quiet = scratch / "log4j2.properties"
    quiet.write_text(_LOG4J)
    java = f"-Dlog4j2.configurationFile=file:{quiet} -Dlog4j.configurationFile=file:{quiet} {JAVA} {archive_options()}"
    return f"{java} {conf.get(JAVA_OPTIONS, '')}".strip()


def _new_context(settings: SparkConf, scratch: liveness.TemporaryPlace) -> SparkContext:
    """A context, and a JVM unless there is one; `scratch` has what that writes, and goes when the context or the process ends."""
    try:
        gateway = SparkContext._gateway or _start_jvm(settings, scratch)
        _converters_of_numpy(False)
        context = SparkContext(conf=settings, gateway=gateway)
        scratch.started()  # from now on the JVM makes nothing there, and ends with its standard input
        return context
    except BaseException:
        scratch.remove()
        raise


def _converters_of_numpy(wanted: bool) -> None:
    """Let numbers and arrays of NumPy go to the JVM, or not.

    Those who convert them look at each argument of each call, and import pandas and Spark's own tests for it: a second.
    """
    others = [each for each in protocol.INPUT_CONVERTER if not isinstance(each, NumpyArrayConverter | NumpyScalarConverter)]
    protocol.INPUT_CONVERTER[:] = [NumpyArrayConverter(), *others, NumpyScalarConverter()] if wanted else others


def _end(scratch: liveness.TemporaryPlace) -> None:
    """Stop Spark at the end of the process, so that nothing is written into the directory any more when it is removed."""
    with suppress(Exception):  # the JVM may be gone
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    scratch.remove()


class _LazySession:
    """A SparkSession that makes its SQL part, which takes a second, on first use: local files need only RDDs."""

    def __init__(self, context: SparkContext, settings: SparkConf, scratch: liveness.TemporaryPlace | None) -> None:
        self.sparkContext, self._settings, self._scratch = context, settings, scratch

    @cached_property
    def _sql_session(self) -> SparkSession:
        _converters_of_numpy(True)
        return SparkSession.builder.config(conf=self._settings).getOrCreate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sql_session, name)

    def stop(self) -> None:
        (self._sql_session if "_sql_session" in vars(self) else self.sparkContext).stop()
        if self._scratch:
            self._scratch.remove()


def _interpreter(local: bool) -> str:
    """The workers' Python: this one; on a cluster the one that PYSPARK_PYTHON names there, if it is set."""
    return sys.executable if local else os.environ.get("PYSPARK_PYTHON") or sys.executable


def _own_interpreter(scratch: Path) -> str:
    """The local workers' Python: this one, in a form that Python 3.10 imports nothing from the working directory with."""
    if sys.version_info >= (3, 11):
        return sys.executable  # which knows PYTHONSAFEPATH
    script = scratch / "python"
    script.write_text(interpreter_script())
    script.chmod(0o700)
    return str(script)


def _with_retry(master: str) -> str:
    """A local master that repeats a failed task once. By default it gives up at once, even if the kernel only killed a worker."""
    return re.sub(r"^local(?:\[([^,\]]+)\])?$", lambda match: f"local[{match[1] or 1},2]", master)


@contextmanager
def _own_environment(scratch: liveness.TemporaryPlace) -> Iterator[None]:
    """The JVM that is started meanwhile, and its Python workers, get an environment of their own: `launch_gateway` takes none.

    The file by which the JVM says its port lies in `scratch`: a command that is ended meanwhile leaves nothing elsewhere. A JVM
    that cannot write the file would wait for ever.
    """
    before, temporary = java_gateway.Popen, java_gateway.tempfile

    def started(*argv: Any, env: Mapping[str, str], **options: Any) -> Any:
        allowed = environment_without_secrets()
        ours = {name: value for name, value in env.items() if name in allowed or name not in os.environ}
        environment = {BLAS_THREADS: "1", **ours, **_safe_path(env.get("PYTHONPATH", ""))}
        return scratch.start(partial(before, *argv, env=environment, **options))

    java_gateway.Popen = started
    java_gateway.tempfile = SimpleNamespace(mkdtemp=partial(tempfile.mkdtemp, dir=scratch.path), mkstemp=tempfile.mkstemp)
    try:
        yield
    finally:
        java_gateway.Popen, java_gateway.tempfile = before, temporary


def _safe_path(path: str) -> dict[str, str]:
    """Variables by which Python workers import nothing from the working directory.

    `python -m` searches it first, and it may be a run's directory from elsewhere. (Python 3.10 does not know
    PYTHONSAFEPATH: `_own_interpreter`.)
    """
    root = str(Path(fencepost.__file__).parents[1])
    ours = [] if Path(root, "pyspark").exists() else [root]  # sources, which may be importable by the working directory only
    entries = [*ours, *filter(None, [path])]
    return {"PYTHONSAFEPATH": "1", **({"PYTHONPATH": os.pathsep.join(entries)} if entries else {})}


_LACKING = ("Too many open files", "No space left on device", "OutOfMemoryError", "There is insufficient memory")


def _start_jvm(settings: SparkConf, scratch: liveness.TemporaryPlace) -> Any:
    """Start the JVM. Its standard error (incubator modules, packages it fetches) is shown only when it does not start."""
    log = scratch.path / "driver.log"
    try:
        with open(log, "ab") as file, _own_environment(scratch):
            return launch_gateway(settings, {"stdout": file, "stderr": file})
    except Exception as error:
        output = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        causes = [line for line in output if any(word in line for word in _LACKING)]
        why = causes or [line for line in output if line.startswith("Exception in thread") or "not found" in line]
        why = why or output or [str(error)]
        raise MachineError(f"Spark's JVM did not start: {why[-1][:500]}") from error
