"""A real Spark cluster of one master and two workers, from PySpark's own jars, judges as the local one does."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pyspark
import pytest

from checkers.judge import judge
from checkers.lawful import write_lawful
from checkers.selfcheck.rows import read_rows, write_rows
from checkers.selfcheck.transactions import tear

HOME = Path(pyspark.__file__).parent
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "sun.nio.ch")
JUDGE = """
import sys
from pathlib import Path
import checkers.judge
from checkers.session import start_session
folder, master, *conf = sys.argv[1:]
checkers.judge.NEAR = 0  # the executors scan and shuffle, as they do for a long history
checkers.judge.judge(Path(folder), start_session(master, conf=dict(text.split("=", 1) for text in conf)))
"""
DECIDED = ("verdict", "reason", "properties", "allowed", "findings", "counts", "progress")
PATIENCE_S = 90.0


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def daemon(folder, name, *arguments):
    """A JVM of Spark's own, its output in a file."""
    java = shutil.which("java", path=os.environ.get("JAVA_HOME", "") + "/bin:" + os.environ["PATH"])
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command = [java, "-Xmx256m", *opened, "-cp", f"{HOME}/jars/*", *arguments]
    env = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
    }
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=folder)


def wait_for(words, log, process):
    deadline = time.monotonic() + PATIENCE_S
    while words not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"waited for {words!r}; the last that {log.name} says: {log.read_text()[-2000:]}")
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a standalone master with two registered workers."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    main = "org.apache.spark.deploy"
    running = [daemon(folder, "master", f"{main}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
    try:
        wait_for("I have been elected leader", folder / "master.log", running[0])
        for name in ("worker-1", "worker-2"):
            sizes = ("--cores", "1", "--memory", "1200m", "--webui-port", "0")
            running.append(daemon(folder, name, f"{main}.worker.Worker", "--host", "127.0.0.1", *sizes, address))
            wait_for("Successfully registered with master", folder / f"{name}.log", running[-1])
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(timeout=30)


@pytest.mark.cluster
def test_a_cluster_and_one_machine_agree(spark, cluster, tmp_path):
    """A torn transaction among a thousand; properties, findings and counts are the same, to the letter."""
    here, there = tmp_path / "here", tmp_path / "there"
    write_lawful(here, transactions=1000, partitions=6, seed=9, row_group=500)
    write_rows(tear(read_rows(here / "history.parquet"), Random(9)).rows, here / "history.parquet")
    shutil.copytree(here, there)
    local = judge(here, spark=spark)
    command, env = [sys.executable, "-c", JUDGE, str(there), cluster], {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    remote = json.loads((there / "verdict.json").read_text())
    assert remote["checker"]["master"] == cluster
    assert local["verdict"] == "invalid"
    for key in DECIDED:
        assert remote[key] == json.loads(json.dumps(local[key])), key


@pytest.mark.cluster
def test_a_cluster_reads_a_history_that_lies_elsewhere(spark, cluster, tmp_path):
    """Driver and executors know the file system by the settings that they are given."""
    far, there = tmp_path / "far", tmp_path / "there"
    write_lawful(far, transactions=1000, partitions=6, seed=9, row_group=500)
    write_rows(tear(read_rows(far / "history.parquet"), Random(9)).rows, far / "history.parquet")
    local = judge(far, spark=spark)
    there.mkdir()
    plan = json.loads((far / "plan.json").read_text())
    (there / "plan.json").write_text(json.dumps({**plan, "history": "viewfs://far/runs/history.parquet"}))
    mapped = f"spark.hadoop.fs.viewfs.mounttable.far.link./runs=file:{far}"
    command, env = [sys.executable, "-c", JUDGE, str(there), cluster, mapped], {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    remote = json.loads((there / "verdict.json").read_text())
    assert (remote["checker"]["master"], remote["verdict"]) == (cluster, "invalid")
    for key in DECIDED:
        assert remote[key] == json.loads(json.dumps(local[key])), key
