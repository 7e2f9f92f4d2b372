"""pandas is imported when it is used, and pyarrow knows its data then as it does elsewhere. In processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import sys
from fencepost.harness.system.deferred_pandas import defer_pandas
defer_pandas()
import pyarrow as pa
assert pa.array([1, None]).null_count == 1 and pa.table({"a": ["x"]}).num_rows == 1
assert "pandas" not in sys.modules
"""
KNOWN = """
series = pd.Series([1.0, None])
assert pa.array(series).null_count == 1, "pyarrow takes NaN for null only where it knows that it has data of pandas"
assert pa.table(pd.DataFrame({"a": [1]})).column_names == ["a"]
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "use",
    [
        "import pandas as pd",
        "import pandas.testing\nimport pandas as pd",
        "from pandas import DataFrame\nimport pandas as pd",
        "frame = pa.table({'a': [1]}).to_pandas()\nassert list(frame['a']) == [1]\nimport pandas as pd",
        "from fencepost.checkers.model.frames import pd\nassert len(pd.DataFrame({'a': [1]})) == 1",
    ],
)
def test_whoever_uses_pandas_has_it_and_pyarrow_knows_it(use):
    run(f"{BEGIN}{use}\n{KNOWN}")


def test_nothing_stays_behind_when_pandas_is_there():
    where = "type(pandas.__loader__).__name__, pandas.__spec__.loader is pandas.__loader__"
    run(f"{BEGIN}finders = len(sys.meta_path)\nimport pandas\nassert ({where}) == ('SourceFileLoader', True)\n"
        "assert len(sys.meta_path) == finders - 1")  # fmt: skip


def test_nothing_is_done_where_pandas_is_there_already():
    begin = "import pandas as pd, sys\nbefore = list(sys.meta_path)\n" + BEGIN.rpartition("assert")[0]
    run(f"{begin}{KNOWN}assert sys.meta_path == before")
