"""Where Python workers take PySpark from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyspark

from checkers.spark.worker_daemon import without_zips

INSTALLED = Path(pyspark.__file__).parent


def test_zip_files_of_the_installed_pyspark_leave_the_search_path(tmp_path):
    lib = INSTALLED / "python" / "lib"
    path = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10-src.zip"), str(tmp_path / "mine.zip"), str(INSTALLED.parent)]
    assert without_zips(path) == path[2:]


def test_zip_files_of_another_pyspark_or_the_only_one_remain_on_the_search_path(tmp_path):
    another = [str(tmp_path / "python" / "lib" / "pyspark.zip"), str(INSTALLED.parent)]
    assert without_zips(another) == another
    only = [str(INSTALLED / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert without_zips(only) == only


def test_workers_import_the_installed_pyspark(spark):
    def module_file(batches):
        import pyspark

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__] * len(batch)})

    modules = spark.range(0, 1, 1, 1).mapInArrow(module_file, "file string").toArrow()
    assert modules["file"].to_pylist() == [pyspark.__file__]
