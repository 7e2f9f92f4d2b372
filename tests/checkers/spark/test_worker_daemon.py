"""Where Python workers take PySpark from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyspark

from checkers.spark.worker_daemon import without_zips

INSTALLED = Path(pyspark.__file__).parent


def test_zips_of_the_installed_package_go(tmp_path):
    lib = INSTALLED / "python" / "lib"
    path = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10-src.zip"), str(tmp_path / "mine.zip"), str(INSTALLED.parent)]
    assert without_zips(path) == path[2:]


def test_zips_stay_where_they_are_another_package_or_the_only_one(tmp_path):
    another = [str(tmp_path / "python" / "lib" / "pyspark.zip"), str(INSTALLED.parent)]
    assert without_zips(another) == another
    only = [str(INSTALLED / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert without_zips(only) == only


def test_workers_have_the_installed_package(spark):
    def whence(batches):
        import pyspark

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__] * len(batch)})

    told = spark.range(0, 1, 1, 1).mapInArrow(whence, "file string").toArrow()
    assert told["file"].to_pylist() == [pyspark.__file__]
