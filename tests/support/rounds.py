"""Campaigns for the engine that performs nothing, and the rounds that they leave."""

from __future__ import annotations

from pathlib import Path

from fencepost.harness.rounds.folders import RoundRecord, read_round

TABLES = 'cluster = {kind = "attic"}\nworkload = {kind = "letters"}\nclient = {kind = "pigeon"}\n'


def night(*tests, head="seed = 7\n"):
    """A campaign file; each test is a name, or a pair of a name and what it expects, or has further keys behind."""
    written = [(test,) if isinstance(test, str) else test for test in tests]
    texts = [f'[[test]]\nname = "{name}"\nexpect = "{(more or ("valid",))[0]}"\n' + "".join(more[1:]) for name, *more in written]
    Path("night.toml").write_text(f"{head}[defaults]\n{TABLES}" + "".join(texts))
    return "night.toml"


def rounds_of(campaign="night", results="results"):
    """The rounds of a campaign, the oldest first."""
    folder = Path(results) / campaign
    return [RoundRecord(folder, path.name, read_round(path)) for path in sorted((folder / "rounds").iterdir())]


def performed(engine):
    """The tests that an engine has performed, in that order."""
    return [step[1] for step in engine.log if isinstance(step, tuple) and step[0] == "prepare"]
