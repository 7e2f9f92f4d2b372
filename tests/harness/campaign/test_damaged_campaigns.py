"""Hundreds of damaged campaigns: each is refused with 254 and one line for each mistake, with file and key, and at once.

Every key of a sound campaign gets values that it cannot have, another name, another place; the text is cut and mangled.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
import tomllib

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.cli import main
from fencepost.harness.planning import schedule

SOUND = """\
name = "night"
seed = 7
[defaults]
time_s = 20
rate = 50
[defaults.cluster]
kind = "local"
kafka = "4.3.0"
brokers = 3
controllers = 0
heap_mb = 256
[defaults.workload]
kind = "transactions"
writers = 4
readers = 1
partitions = 3
sends = [1, 3]
think_ms = 5
abort_share = 0.1
transaction_timeout_s = 10
[[test]]
name = "steady"
seed = 3
repeat = 2
expect = "valid"
[test.client]
kind = "librdkafka"
[test.client.producer]
linger.ms = 5
[test.budget]
nodes = 1
keep_quorum = true
[test.lanes.main]
order = "in turn"
busy_s = [5, 9]
quiet_s = 4
[[test.nemesis]]
kind = "kill"
target = "leader:t-0"
every_s = [3, 6]
lasts_s = 4
count = 1
answer_within_s = 30
[[test.nemesis]]
kind = "latency"
delay_ms = 100
when = "transaction-open"
[test.matrix]
"topic.min.insync.replicas" = [2]
"""
NUMBERS = (
    *("time_s", "rate", "seed", "repeat", "brokers", "controllers", "heap_mb", "writers", "readers", "partitions", "think_ms"),
    *("abort_share", "transaction_timeout_s", "nodes", "quiet_s", "lasts_s", "count", "answer_within_s", "delay_ms"),
)
SPANS = ("sends", "busy_s", "every_s")
WORDS = ("kind", "kafka", "target", "when", "order", "expect")
NONSENSE = (
    *("nan", "inf", "-inf", "-7", "1e300", "1" + "0" * 400, '"x"', '""', "true"),
    *("[]", "{}", "1979-05-27", "[[1]]", "{a = {b = 1}}"),
)
NO_WORD = ('"no such thing"', '"../../x"', '"\\u0000"', "7", "nan", "true", "[1]", "{}", "1979-05-27", f'"{"x" * 9000}"')
DENSE = (
    SOUND.replace("every_s = [3, 6]", "every_s = 0")
    .replace("lasts_s = 4", "lasts_s = 0.1")
    .replace("time_s = 20", "time_s = 9e4")
)
MISTAKE = re.compile(r"night\.toml(:\d+)?: \S.*")


def with_value(key, number, value):
    """The campaign with another value for the `number`-th key of this name."""
    places = list(re.finditer(rf"(?m)^{re.escape(key)} = .*$", SOUND))
    return SOUND[: places[number].start()] + f"{key} = {value}" + SOUND[places[number].end() :]


def wrong_values():
    """Campaigns with one value that cannot be, each with the key."""
    for keys, values in ((NUMBERS, NONSENSE), (SPANS, [*NONSENSE, "[9, 1]", "[1, nan]", "[1]"]), (WORDS, NO_WORD)):
        for key in keys:
            for number in range(len(re.findall(rf"(?m)^{key} = ", SOUND))):
                for value in values:
                    if not lawful(key, value):
                        yield pytest.param(with_value(key, number, value), key, id=f"{key}[{number}]={value[:20]}")


def lawful(key, value):
    """True if a key may have a value although it looks like nonsense."""
    return (key, value) in {("when", '""'), ("repeat", "true")} or (key == "rate" and value == "0")


def other_names():
    """Campaigns with one key, or one table, under another name."""
    for place in re.finditer(r"(?m)^([a-z_]+)( = .*)$", SOUND):
        if place[1] != "name":
            yield pytest.param(
                SOUND[: place.start()] + f"{place[1]}x{place[2]}" + SOUND[place.end() :], place[1], id=f"{place[1]}x"
            )
    for header in dict.fromkeys(re.findall(r"(?m)^\[+[a-z.]+\]+$", SOUND)):
        yield pytest.param(SOUND.replace(header, header.replace("]", "x]", 1), 1), "", id=header)


def refused(text, *options):
    """The mistakes of a campaign that is refused."""
    Path("night.toml").write_text(text)
    with pytest.raises(CampaignError) as caught:
        campaign.read(Path("night.toml"))
    for mistake in caught.value.mistakes:
        assert MISTAKE.fullmatch(mistake), repr(mistake)
        assert len(mistake) < 3000
    return caught.value.mistakes


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory):
    """One working directory for all: what is installed is looked up again for each, since a plug-in may lie there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("campaigns"))
        yield


def test_the_campaign_itself_is_sound():
    Path("night.toml").write_text(SOUND)
    assert len(campaign.read(Path("night.toml")).tests) == 1


@pytest.mark.parametrize(("text", "key"), list(wrong_values()))
def test_a_value_that_cannot_be_is_refused_by_its_key(text, key):
    tomllib.loads(text)
    assert any(re.search(rf"[. ]{key}\b", mistake) for mistake in refused(text)), refused(text)


@pytest.mark.parametrize(("text", "key"), list(other_names()))
def test_a_key_of_another_name_is_refused(text, key):
    assert any(f"{key}x" in mistake for mistake in refused(text))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "test: there is none"),
        ("[[test]]\n", "test[0].name: missing"),
        ("test = 3\n", "test: must be a list of tables"),
        ("\0", "is not TOML"),
        ("a = 1\na = 2\n", "line 2"),
        ("a = [\n", "line 2, the end of the file"),
        ("a = " + "[" * 5000, "lie too deep"),
        ("a = " + "{b = " * 3000 + "1" + "}" * 3000, "lie too deep"),
        ("a = " + "1" * 5000, "that can be read: Exceeds the limit"),
        ("x" * (2 << 20), "is larger than 1 MiB"),
        (SOUND.replace('[test.matrix]\n"topic', '[test.matrix]\n"time_s" = []\n"topic'), "test[0].matrix.time_s: must be a list"),
        ("[[test]]\nname = 'a'\n" * 1001, "a campaign has at most 1000"),
        (SOUND + '"rate" = [' + "1," * 1100 + "]\n", "makes 1100 tests"),
        (DENSE, "may strike"),
        (SOUND + "[[test]]\nname = 'steady'\n", "are called"),
        (SOUND.replace("brokers = 3", 'brokers = 3\nsettings."num.io.threads" = inf'), "must be a finite number"),
        (SOUND.replace("linger.ms = 5", "linger.ms = [5]"), "must be a text, a number"),
        (SOUND.replace("linger.ms = 5", '"a\\nb" = 5'), "No such configuration property"),
    ],
)
def test_a_campaign_of_another_shape_is_refused(text, part):
    assert any(part in mistake for mistake in refused(text)), refused(text)


@pytest.mark.parametrize("data", [b"\xff\xfe", b'name = "\xe9"', b"\xef\xbb\xbfname = 1"])
def test_bytes_that_are_no_text_are_refused(data):
    Path("night.toml").write_bytes(data)
    with pytest.raises(CampaignError, match=r"^night\.toml(:1)?: "):
        campaign.read(Path("night.toml"))


@pytest.mark.parametrize("seed", range(100))
def test_a_mangled_text_is_refused_or_sound_and_never_breaks(seed):
    """Cut, or with characters, lines and values exchanged; what is accepted can be planned."""
    Path("night.toml").write_text(mangled(random.Random(seed)))
    parsed, mistakes = read_or_refused()
    assert all(MISTAKE.fullmatch(mistake) for mistake in mistakes), mistakes
    for run in campaign.planned(parsed) if parsed else ():
        schedule.draw(run.test.nemesis, run.test.time_s, run.seed, run.test.lanes)


def read_or_refused():
    try:
        return campaign.read(Path("night.toml")), []
    except CampaignError as error:
        return None, error.mistakes


def mangled(rng):
    """The sound campaign after a few random changes."""
    text = SOUND
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(text)), rng.randrange(len(text))
        lines = text.splitlines(keepends=True)
        line = rng.randrange(len(lines))
        text = rng.choice(
            [
                text[:at],
                text[:at] + rng.choice('"[]{}=.,#\n\\\0é-9') + text[at + 1 :],
                text[: min(at, other)] + text[max(at, other) :] if abs(at - other) < 30 else text[:at] + text[at + 3 :],
                "".join(lines[:line] + lines[line + 1 :]),
                "".join([*lines[: line + 1], lines[line], *lines[line + 1 :]]),
                re.sub(r"\d+", lambda match: rng.choice([match[0], match[0], rng.choice(["nan", "-1", "1e9", '"1"'])]), text),
            ]
        )
        text = text or "x"
    return text


def test_the_command_answers_with_254_and_counts_the_mistakes(capsys):
    """As text, and as JSON."""
    Path("night.toml").write_text(SOUND.replace("time_s = 20", "time_s = nan").replace("rate = 50", "rat = 50"))
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main.main(["campaign", "night.toml", *options])
        output = capsys.readouterr()
        assert left.value.code == 254
        assert "2 mistakes; nothing was started" in output.err
        assert not options or len(json.loads(output.out)["mistakes"]) == 2
