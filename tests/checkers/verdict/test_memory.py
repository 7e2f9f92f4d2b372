"""Memory that judging leaves to the report."""

import gc

from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.history.run_directory import open_run


def views():
    return {id(made) for made in gc.get_objects() if isinstance(made, RunView | Overview)}


def test_nothing_of_a_judged_run_waits_for_a_search_for_garbage(tmp_path):
    write_lawful(tmp_path / "run", transactions=40)
    before = views()
    gc.disable()
    try:
        assert judge(open_run(tmp_path / "run"), here=True)["verdict"] == "valid"
        assert views() <= before
    finally:
        gc.enable()
