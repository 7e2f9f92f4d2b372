"""The tables of a run as Spark data frames: the same rows as in pandas."""

from __future__ import annotations

import json

import pytest
from support import report_example

import fencepost
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.data import spark_tables


@pytest.fixture
def torn(tmp_path):
    return fencepost.open(report_example.torn(tmp_path / "torn"))


def test_the_rows_are_those_of_pandas(torn, spark):
    tables = torn.spark(spark)
    assert tables.history().count() == len(torn.history())
    assert tables.receipts().select("id").toPandas()["id"].tolist() == torn.receipts()["id"].tolist()
    names = list(torn.records().columns)
    there = tables.records().select(*names).orderBy("index", "kind", "partition", "v").limit(50).collect()
    here = torn.records().sort_values(["index", "kind", "partition", "v"]).head(50)
    assert [row["v"] for row in there] == here["v"].tolist()
    assert [row["kind"] for row in there] == here["kind"].tolist()


def test_the_active_session_is_taken_where_none_is_given(torn, spark):
    assert torn.spark().session.sparkContext is spark.sparkContext


def test_a_session_is_made_where_there_is_none(torn, spark, monkeypatch):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert spark_tables.local_session().sparkContext is spark.sparkContext


def test_a_missing_table_is_a_sentence_with_the_remedy(torn, spark):
    with pytest.raises(HistoryError, match=r"stored.parquet is missing; a run records it where"):
        torn.spark(spark).stored()


def test_a_history_at_an_address_is_read_there(torn, spark, tmp_path):
    path = (torn.directory / "history.parquet").rename(tmp_path / "elsewhere.parquet")
    plan = json.loads((torn.directory / "plan.json").read_text())
    (torn.directory / "plan.json").write_text(json.dumps(plan | {"history": path.as_uri()}))
    assert fencepost.open(torn.directory).spark(spark).history().count() > 0
