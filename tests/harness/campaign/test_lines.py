"""In which line of a campaign file a key stands, and that a mistake says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.campaign.lines import lines_of

CAMPAIGNS = Path(__file__).parents[3] / "campaigns"
TEXT = """\
name = "x" # [not, a table]
[defaults]
topic.min.insync = 1
"quoted # key" = [1, # a comment ]
  2, \"\"\"a
]\"\"\", {z = 3, y.u = [ ]}]
[[test]]
name = 'a # no comment'
[[test.nemesis]]
[[test.nemesis]]
"k\\u0041" = "}"
[[test]]
nemesis = [{kind="a"},
  {kind="b", inner = {deep = 1}}]
[test.lanes.main]
order = "in turn"
"""


def paths(value, above=()):
    """Every path of keys in a table."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path for key, member in entries for path in ((*above, key), *paths(member, (*above, key)))}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 1),
        (("defaults", "topic", "min", "insync"), 3),
        (("defaults", "quoted # key"), 4),
        (("defaults", "quoted # key", 1), 5),
        (("defaults", "quoted # key", 3, "z"), 6),
        (("test", 0), 7),
        (("test", 0, "name"), 8),
        (("test", 0, "nemesis", 1), 10),
        (("test", 0, "nemesis", 1, "kA"), 11),
        (("test", 1, "nemesis", 0, "kind"), 13),
        (("test", 1, "nemesis", 1, "inner", "deep"), 14),
        (("test", 1, "lanes", "main", "order"), 16),
    ],
)
def test_each_key_has_its_line(path, line):
    assert lines_of(TEXT)[path] == line


@pytest.mark.parametrize("text", [TEXT, *(path.read_text() for path in sorted(CAMPAIGNS.glob("*.toml")))])
def test_every_key_that_toml_reads_has_a_line_and_no_other(text):
    assert set(lines_of(text)) == paths(tomllib.loads(text))


def test_a_mistake_names_file_line_and_key(tmp_path):
    """A key that is missing has the line of its table, a setting with dots its own."""
    file = tmp_path / "a.toml"
    file.write_text('[[test]]\nname = "a"\n[test.topic]\nmin.insync.replicas = nan\n[[test.nemesis]]\nlasts_s = inf\n')
    with pytest.raises(CampaignError) as caught:
        campaign.read(file)
    assert sorted(caught.value.mistakes) == [
        f'{file}:4: test[0].topic."min.insync.replicas": must be a finite number, not nan',
        f"{file}:5: test[0].nemesis[0].kind: missing",
        f"{file}:6: test[0].nemesis[0].lasts_s: must be a finite number, not inf",
    ]
