"""Spark Structured Streaming as a sink: from a topic to files, exactly once, or to a topic, at least once.

fencepost example spark_stream fetch
fencepost run -w sink --set 'command={python} {examples}/sinks/spark_stream.py files' --set instances=1 --set group= \
    --set 'listing={python} {examples}/sinks/spark_stream.py list' --set quiet_s=40 -n kill,target=instance,every_s=20
fencepost run -w application --set 'command={python} {examples}/sinks/spark_stream.py topic' --set instances=1 --set group= \
    --set quiet_s=40 --contract application=at-least-once -n kill,target=instance,every_s=20

Spark keeps its offsets in a checkpoint, so there is no group. Which files belong to the output says the directory
`_spark_metadata` beside them: a file that is there and not named in it was written by a batch that did not end. `list` reads them
as Spark does. A run may have no network but its own, so fetch Spark's source of Kafka first.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyspark

SOURCE = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")  # of Spark 4.3.0 none is published; with it this one works
MEMORY = "512m"
TRIGGER = "1 second"
LOG = "_spark_metadata"


def fetch() -> None:
    """Put Spark's source of Kafka, and what it needs, into the cache, if it is not there."""
    from fencepost.harness.fetching import maven

    _store().fetch(SOURCE[2], lambda directory: maven.fetch(f"Spark's source of Kafka {SOURCE[2]}", (SOURCE,), directory), print)


def _store():  # type: ignore[no-untyped-def]
    from fencepost.harness.fetching.store import Store, cache_dir

    return Store(cache_dir() / "spark-kafka", "Spark's source of Kafka", "fencepost example spark_stream fetch")


def jars() -> list[str]:
    """The jars, as paths; those that Spark itself has are left out."""
    if _store().present(SOURCE[2]) is None:
        sys.exit("Spark's source of Kafka is not there yet: fencepost example spark_stream fetch")
    own = {_library(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [str(path) for path in sorted((_store().directory / SOURCE[2]).glob("*.jar")) if _library(path) not in own]


def _library(jar: Path) -> str:
    return re.sub(r"-\d.*", "", jar.name)


def run(to_files: bool) -> None:
    """Copy the topic until SIGTERM."""
    from pyspark.sql import SparkSession

    own = os.environ["FENCEPOST_DIRECTORY"]  # what a killed life leaves behind goes with the run
    settings = {"spark.driver.memory": MEMORY, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    settings |= {"spark.local.dir": own, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={own}"}
    builder = SparkSession.builder.master("local[2]").config(map=settings).config("spark.driver.extraClassPath", ":".join(jars()))
    session = builder.getOrCreate()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # a batch that does not end is not there
    env, connection = os.environ, json.loads(os.environ.get("FENCEPOST_CONNECTION", "{}"))
    kafka = {
        "kafka.bootstrap.servers": env["FENCEPOST_BOOTSTRAP"],
        **{f"kafka.{key}": value for key, value in connection.items()},
    }
    source = {
        **kafka,
        "subscribe": env["FENCEPOST_INPUT"],
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    records = session.readStream.format("kafka").options(**source).load()
    if to_files:
        place = Path(env["FENCEPOST_STORE"])
        writer = records.selectExpr("CAST(value AS STRING) AS value").writeStream.format("text")
        writer = writer.option("path", str(place / "items")).option("checkpointLocation", str(place / "checkpoint"))
    else:
        writer = records.select("key", "value", "headers").writeStream.format("kafka").options(**kafka)
        writer = writer.option("topic", env["FENCEPOST_OUTPUT"])
        writer = writer.option("checkpointLocation", str(Path(env["FENCEPOST_DIRECTORY"], "checkpoint")))
    writer.trigger(processingTime=TRIGGER).start().awaitTermination()


# -- what is there ---------------------------------------------------------------------------------
def listed(items: Path) -> Iterator[str]:
    """The lines of all files that the output's log names, in the order of batches."""
    for path in named(items / LOG):
        yield from path.read_text().splitlines()


def named(log: Path) -> Iterator[Path]:
    """The files that the log names: in its last compacted batch, and those after it. Hidden ones are of batches under way."""
    batches = {int(path.name.removesuffix(".compact")): path for path in log.iterdir() if path.name[0].isdigit()}
    compact = max((number for number, path in batches.items() if path.suffix == ".compact"), default=0)
    for number in sorted(number for number in batches if number >= compact):
        for line in batches[number].read_text().splitlines()[1:]:  # the first one is the version
            yield Path(unquote(urlparse(json.loads(line)["path"]).path))


def main(word: str) -> None:
    if word == "fetch":
        fetch()
    elif word == "list":
        for line in listed(Path(os.environ["FENCEPOST_STORE"], "items")):
            print(line)
    elif word in ("files", "topic"):
        run(to_files=word == "files")
    else:
        sys.exit("fetch, files, topic or list")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
