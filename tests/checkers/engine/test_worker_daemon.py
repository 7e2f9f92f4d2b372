"""The PySpark from which Python workers are started."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyspark

from fencepost.checkers.engine.worker_daemon import without_imports_in_collections, without_zips

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


def test_garbage_collections_leave_out_what_a_task_imported(monkeypatch):
    """After a task without imports nothing more is left out: what it made may be garbage."""
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(sys.modules)))
    task = without_imports_in_collections(lambda name: monkeypatch.setitem(sys.modules, name, ModuleType(name)))
    for name in ("imported_once", "imported_once", "imported_later"):
        task(name)
    assert [count - frozen[0] for count in frozen] == [0, 1]


def test_workers_leave_their_imports_out_of_collections(spark):
    def frozen_objects(numbers):
        return [gc.get_freeze_count() for _ in numbers]

    for _ in range(2):  # the imports of the first job's tasks
        counts = spark.sparkContext.parallelize(range(8), 8).mapPartitions(frozen_objects).collect()
    assert min(counts) > 0
