"""The commands, with an engine that performs nothing."""

from __future__ import annotations

import atexit
import errno
import gc
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from support.fake_engine import FakeEngine

from fencepost.harness.api import ClusterError, HarnessError
from fencepost.harness.api.errors import HistoryError, MachineError, UnwritableFile
from fencepost.harness.cli import console, main
from fencepost.harness.history.run_directory import write_plan
from fencepost.harness.memory import index
from fencepost.harness.memory.index import rows
from fencepost.harness.runs import store
from fencepost.harness.system import limits, liveness
from fencepost.harness.system.package_files import CAMPAIGNS

RUN = ["run", "--workload", "letters", "--cluster", "attic", "--client", "pigeon", "--nemesis", "hammer"]
TABLES = 'cluster = {kind = "attic"}\nworkload = {kind = "letters"}\nclient = {kind = "pigeon"}\n'


@pytest.fixture
def fencepost(stranger, monkeypatch, capsys):
    """Runs `fencepost` with arguments; returns its exit code, standard output and standard error."""
    engines = []

    def engine(results, master, on_event, spark_conf, known):
        engines.append(FakeEngine(results=results, master=master, on_event=on_event, spark_conf=spark_conf, known=known))
        return engines[-1]

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    monkeypatch.setattr(console, "engine", engine)
    monkeypatch.delenv("COLUMNS", raising=False)
    call.engines = engines
    return call


def a_campaign(text, head=f"seed = 7\n[defaults]\n{TABLES}"):
    Path("night.toml").write_text(head + text)
    return "night.toml"


def some_tests(*pairs):
    return "".join(f'[[test]]\nname = "{name}"\nexpect = "{expect}"\n' for name, expect in pairs)


@pytest.mark.parametrize(("answer", "code"), [(None, 0), (1, 1), ("1", 255), ([], 255)])
def test_what_is_no_exit_code_is_no_success(fencepost, monkeypatch, answer, code):
    monkeypatch.setattr(main, "command_line", lambda words: lambda **_: answer)
    left, _, err = fencepost("campaign")
    assert left == code
    assert ("instead of an exit code" in err) == (code == 255)


def test_a_valid_run_prints_its_seed_first_and_last_and_the_command_that_repeats_it(fencepost):
    code, out, err = fencepost(*RUN, "--name", "valid", "--set", "writers=2", "--seed", "7", "--time", "30")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "valid  (1 of 1)  seed 7"
    assert lines[-1] == "seed 7"
    assert "25 of 30 s  ok 250  fail 0  info 25  11.0/s  faults: pause n2" in out
    assert "  -> valid, as expected" in lines
    repeat = "repeat: fencepost run --workload letters --set writers=2 --nemesis hammer --time 30.0 --cluster attic"
    assert f"{repeat} --client pigeon --name valid --seed 7" in lines
    assert fencepost.engines[0].log[-1] == "close"


def test_the_command_in_the_plan_makes_the_same_plan_again(fencepost):
    import shlex

    fencepost(*RUN, "--name", "valid", "--nemesis", "hammer,count=2", "--topic", "a.b=c d", "--expect", "torn-letter")
    [plan] = [json.loads(path.read_text()) for path in Path("results").glob("valid/*/plan.json")]
    assert "--topic 'a.b=c d'" in plan["command"]
    fencepost(*shlex.split(plan["command"])[1:])
    plans = [json.loads(path.read_text()) for path in Path("results").glob("valid/*/plan.json")]
    assert [again["command"] for again in plans] == [plan["command"]] * 2


def test_an_expected_anomaly_that_is_found_is_a_success(fencepost):
    code, out, _ = fencepost(*RUN, "--name", "torn", "--expect", "torn-letter", "--tolerate", "lost-letter anywhere")
    assert code == 0
    assert "invalid, as expected: torn-letter" in out
    assert "--tolerate 'lost-letter anywhere'" in next(line for line in out.splitlines() if line.startswith("repeat:"))


@pytest.mark.parametrize(("name", "expected"), [("torn", 1), ("unknown", 2), ("broken", 254), ("absent", 254), ("bug", 255)])
def test_the_exit_code_of_a_run_follows_its_result(fencepost, name, expected):
    assert fencepost(*RUN, "--name", name)[0] == expected


def test_all_mistakes_in_options_are_reported_and_nothing_starts(fencepost):
    code, out, err = fencepost(*RUN, "--set", "writres=2", "--nemesis", "hamer")
    assert (code, out, fencepost.engines) == (254, "", [])
    assert 'did you mean "writers"?' in err
    assert 'did you mean "hammer"?' in err
    assert "2 mistakes; nothing was started" in err


@pytest.mark.parametrize("arguments", [["run", "--frobnicate"], ["run", "--time", "soon"], ["frob"], ["check"]])
def test_a_wrong_command_line_exits_with_254_and_never_with_2_which_means_unknown(fencepost, arguments):
    code, _, err = fencepost(*arguments)
    assert code == 254
    assert "Error" in err


def test_run_as_json_prints_the_verdict_document_alone(fencepost):
    code, out, err = fencepost(*RUN, "--name", "torn", "--json")
    assert code == 1
    assert json.loads(out)["verdict"] == "invalid"
    assert "torn  (1 of 1)" in err


def test_a_campaign_ends_with_a_table_and_the_reports(fencepost):
    file = a_campaign(some_tests(("valid", "valid"), ("valid+torn", "torn-letter"), ("lost", "valid")))
    code, out, _ = fencepost("campaign", file, "--repeat", "2")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 1
    assert rows[0] == "night: 6 runs, about 8 min (no earlier round) seed 7"
    timeless = [row.rpartition(" s")[0].rpartition(" ")[0] for row in rows if row.endswith(" s")]
    assert "valid 2 of 2 valid met 500 0" in timeless
    assert "valid+torn 1 of 2 hit: torn-letter met 500 1" in timeless
    assert "lost 0 of 2 valid; invalid: lost-letter not met 500 2" in timeless
    assert sum(row.startswith("lost: results/night/") for row in rows) == 2
    assert rows[-1] == "seed 7"


def test_a_campaign_as_json_prints_every_run_and_the_exit_code(fencepost):
    code, out, _ = fencepost("campaign", a_campaign(some_tests(("valid", "valid"), ("broken", "valid"))), "--json")
    document = json.loads(out)
    assert (code, document["exit"], document["campaign"], document["seed"]) == (254, 254, "night", 7)
    assert [(run["test"], run["verdict"]) for run in document["runs"]] == [("valid", "valid"), ("broken", None)]
    assert document["runs"][1]["error"].startswith("n2 did not answer")


def test_a_dry_run_lists_the_runs_and_starts_nothing(fencepost):
    file = a_campaign(some_tests(("valid", "valid"), ("torn", "torn-letter")))
    code, out, _ = fencepost("campaign", file, "--only", "torn", "--seed", "3", "--dry-run")
    assert (code, fencepost.engines) == (0, [])
    assert [" ".join(line.split()) for line in out.splitlines()][1:] == ["torn 60 s none torn-letter 3"]


def test_a_campaign_with_a_mistake_exits_with_254(fencepost):
    code, _, err = fencepost("campaign", a_campaign('[[test]]\nname = "valid"\nworkload.wirters = 3\n'))
    assert code == 254
    assert 'night.toml:8: test[0].workload.wirters: unknown option "wirters"; did you mean "writers"?' in err
    assert "1 mistake; nothing was started" in err
    assert not Path("results").exists()


def test_a_missing_secret_of_any_test_is_reported_before_the_first_run(fencepost, monkeypatch):
    """A dry run needs none: it may be made where the secrets are not."""
    monkeypatch.delenv("NOT_SET", raising=False)
    far = 'cluster = {kind = "external", bootstrap = "h:1", settings = {"sasl.password" = "env:NOT_SET"}}\n'
    own = 'client.producer = {"ssl.key.password" = "env:NOT_SET"}\n'
    file = a_campaign(f"""{some_tests(("valid", "valid"))}[[test]]\nname = "b"\n{own}[[test]]\nname = "c"\n{far}""")
    code, _, err = fencepost("campaign", file)
    missing = "= env:NOT_SET: the environment variable NOT_SET is not set"
    assert err.splitlines() == [
        f"b: client.producer: ssl.key.password {missing}",
        f"c: cluster: sasl.password {missing}",
        "2 mistakes; nothing was started",
    ]
    assert (code, fencepost.engines) == (254, [])
    assert fencepost("campaign", file, "--dry-run")[0] == 0
    monkeypatch.setenv("NOT_SET", "hunter2hunter2")
    assert fencepost("campaign", file, "--only", "valid", "--only", "b")[0] == 0


def test_check_judges_again_by_another_contract_and_exits_by_the_verdict(fencepost):
    fencepost(*RUN, "--name", "torn", "--expect", "torn-letter")
    code, out, _ = fencepost("check", "latest", "--contract", "acks=1")
    assert code == 1
    assert out.splitlines()[-2] == "invalid: it is invalid"
    assert ("judge", {"acks": "1"}) in fencepost.engines[-1].log


def test_check_of_a_url_fetches_the_run_unless_it_is_a_file_url(fencepost):
    code, out, _ = fencepost("check", "hdfs://there:8020/runs/k3f9x2", "--contract", "acks=1", "--spark-conf", "spark.a=b=c")
    assert code == 0
    assert ("fetch", "hdfs://there:8020/runs/k3f9x2", {"acks": "1"}) in fencepost.engines[-1].log
    assert fencepost.engines[-1].spark_conf == {"spark.a": "b=c"}
    [directory] = Path("results/adopted").iterdir()
    assert out.splitlines()[-1] == f"{directory}/report.html"
    assert fencepost("check", f"file://{directory.resolve()}")[0] == 0
    assert fencepost.engines[-1].log == ["hold", ("judge", None), "close"]


def test_check_starts_spark_first_for_a_large_history_and_where_a_master_is_named(fencepost, monkeypatch):
    fencepost(*RUN, "--name", "valid")
    assert fencepost("check", "latest", "--spark-master", "local[2]")[0] == 0
    assert "start_spark" in fencepost.engines[-1].log
    monkeypatch.setattr("fencepost.harness.cli.check.OURS", -1)
    assert fencepost("check", "latest")[0] == 0
    assert "start_spark" in fencepost.engines[-1].log


@pytest.mark.parametrize("command", [["check", "latest"], ["selfcheck"], RUN, ["campaign", "night.toml"]])
def test_a_wrong_spark_setting_starts_nothing(fencepost, command):
    a_campaign(some_tests(("valid", "valid")))
    conf = ["--spark-conf", "fs.s3a.endpoint=x", "--spark-conf", "spark.master=y", "--spark-conf", "spark.z"]
    code, _, err = fencepost(*command, *conf)
    assert (code, fencepost.engines) == (254, [])
    assert "--spark-conf fs.s3a.endpoint: Spark's settings begin with spark." in err
    assert "the master is named by --spark-master" in err
    assert "--spark-conf spark.z: must be key=value" in err


def test_spark_settings_reach_the_engine_and_no_file(fencepost):
    """Somebody may have put a password there."""
    code, out, _ = fencepost(*RUN, "--name", "valid", "--spark-conf", "spark.hadoop.fs.s3a.secret.key=hush")
    assert code == 0
    assert fencepost.engines[-1].spark_conf == {"spark.hadoop.fs.s3a.secret.key": "hush"}
    assert "hush" not in out
    assert not [path for path in Path("results").rglob("*") if path.is_file() and "hush" in path.read_text()]


@pytest.mark.parametrize("command", [["selfcheck"], ["export"]])
def test_selfcheck_and_export_refuse_a_history_on_another_file_system(fencepost, command):
    directory = store.new_run_dir(Path("results"), "adopted", "far")
    write_plan(directory, {"run": "far", "history": "hdfs://there/runs/far/history.parquet"})
    code, _, err = fencepost(*command, "far")
    assert code == 254
    assert "its history lies at hdfs://there/runs/far/history.parquet" in err
    assert [path.name for path in directory.iterdir()] == ["plan.json"]


def test_check_as_json_prints_only_the_verdict(fencepost):
    fencepost(*RUN, "--name", "valid")
    code, out, _ = fencepost("check", "latest", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "valid")


def test_check_runs_a_check_given_by_import_path_and_refuses_one_that_cannot_be_used(fencepost):
    code = "from fencepost.checkers.api import CheckResult, partition_check\n\n@partition_check('mine')\n"
    Path("my_faults.py").write_text(
        code + "def mine(log):\n    'Odd.'\n    return CheckResult(0)\n\n\ndef bare(log):\n    return CheckResult(0)\n"
    )
    fencepost(*RUN, "--name", "valid")
    assert fencepost("check", "latest", "--checker", "my_faults:mine")[0] == 0
    assert ("judge", None, "my_faults:mine") in fencepost.engines[-1].log
    code, _, err = fencepost("check", "latest", "--checker", "my_faults:bare", "--checker", "my_faults:gone")
    assert (code, len(fencepost.engines)) == (254, 2)
    assert "--checker my_faults:bare: bare is a function, not a check" in err
    assert "module my_faults has no gone" in err


def test_check_of_a_run_that_does_not_exist_exits_with_254(fencepost):
    code, _, err = fencepost("check", "k3f9x2")
    assert code == 254
    assert "there are no runs below results" in err


@pytest.mark.parametrize("command", ["check", "selfcheck", "show", "export", "report"])
@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_no_run_and_not_the_current_directory(fencepost, command, name):
    """A variable of a shell that is not set."""
    Path("history.txt").write_text("0\t:invoke\t:txn\t[[:send 5 1]]\n0\t:ok\t:txn\t[[:send 5 [0 1]]]\n")
    code, _, err = fencepost(command, name)
    assert code == 254
    assert "the run has no name" in err


def acknowledge(*fingerprints, expires="2999-01-31", file="known.toml"):
    entries = [f'[[known]]\nfingerprint = "{mark}"\nreason = "KIP-98"\nexpires = {expires}\n' for mark in fingerprints]
    Path(file).write_text("".join(entries))


def fingerprints():
    return [finding.fingerprint for row in rows(Path("results")) for finding in row.findings]


def test_known_findings_alone_are_as_expected_and_the_last_lines_say_so(fencepost):
    assert fencepost(*RUN, "--name", "torn")[0] == 1
    acknowledge(*fingerprints())
    code, out, _ = fencepost(*RUN, "--name", "torn")
    assert code == 0
    assert "-> invalid, as expected but for known findings: torn-letter" in out
    assert "met, but for known findings" in out
    assert "known findings: torn-letter: KIP-98; acknowledged until 2999-01-31 in known.toml:1" in out
    code, out, _ = fencepost(*RUN, "--name", "torn", "--json")
    assert (code, json.loads(out)["unexpected_known"]) == (0, True)


def test_an_acknowledgement_that_has_expired_fails_and_says_so(fencepost):
    fencepost(*RUN, "--name", "torn")
    acknowledge(*fingerprints(), expires="2020-01-31")
    code, out, _ = fencepost(*RUN, "--name", "torn")
    assert code == 1
    assert "known findings: torn-letter: KIP-98; expired on 2020-01-31: mend it, or renew known.toml:1" in out


def test_a_new_finding_beside_known_ones_fails(fencepost):
    fencepost("campaign", a_campaign(some_tests(("torn", "valid"))))
    acknowledge(*fingerprints())
    assert fencepost("campaign", a_campaign(some_tests(("torn", "valid"))))[0] == 0
    assert fencepost("campaign", a_campaign(some_tests(("torn", "valid"), ("lost", "valid"))))[0] == 1


def test_known_findings_do_not_stand_for_what_a_test_expects(fencepost):
    fencepost(*RUN, "--name", "torn", "--expect", "lost-letter")
    acknowledge(*fingerprints())
    assert fencepost(*RUN, "--name", "torn", "--expect", "lost-letter")[0] == 1
    assert fencepost("campaign", a_campaign('[[test]]\nname = "torn+lost"\nexpect = "lost-letter"\nrepeat = 2\n'))[0] == 0


def test_a_file_of_known_findings_is_named_or_lies_beside_the_campaign(fencepost):
    fencepost(*RUN, "--name", "torn")
    acknowledge(*fingerprints(), file="mine.toml")
    assert fencepost(*RUN, "--name", "torn")[0] == 1
    assert fencepost(*RUN, "--name", "torn", "--known", "mine.toml")[0] == 0
    Path("night").mkdir()
    acknowledge(*fingerprints()[:1], file="night/known.toml")
    Path("night/night.toml").write_text(Path(a_campaign(some_tests(("torn", "valid")))).read_text())
    assert fencepost("campaign", "night/night.toml")[0] == 0


def test_a_mistake_among_known_findings_is_named_before_anything_starts(fencepost):
    Path("known.toml").write_text("[[known]]\nreason = 3\n")
    code, _, err = fencepost(*RUN, "--name", "valid")
    assert code == 254
    assert "known.toml:2: known[0].reason: must be a text" in err
    assert not Path("results").exists()


def test_list_shows_every_run_with_its_verdict(fencepost):
    assert fencepost("list")[1] == "no runs below results\n"
    fencepost(*RUN, "--name", "torn")
    fencepost(*RUN, "--name", "broken")
    _, out, _ = fencepost("list")
    assert "invalid, against expectation" in out
    assert "not judged" in out
    assert {run["test"] for run in json.loads(fencepost("list", "--json")[1])} == {"torn", "broken"}


def test_results_land_in_the_given_folder(fencepost, monkeypatch):
    fencepost(*RUN, "--name", "valid", "--results", "elsewhere")
    monkeypatch.setenv("FENCEPOST_RESULTS", "by-environment")
    fencepost(*RUN, "--name", "valid")
    assert [len(store.list_runs(Path(root))) for root in ("elsewhere", "by-environment", "results")] == [1, 1, 0]


def test_report_prints_the_path_of_the_page(fencepost, monkeypatch):
    import fencepost.harness.report as page

    fencepost(*RUN, "--name", "valid")
    monkeypatch.setattr(page, "render", lambda run, *_: run.path("report.html"))
    _, out, _ = fencepost("report", "latest")
    assert out.strip().endswith("report.html")


ODD_CHECK = """from fencepost.checkers.api import ALLOWED, CheckResult, Rule, partition_check


def odd(log):
    \"\"\"A record at an odd offset.\"\"\"
    return CheckResult(0)


"""


def test_the_rules_of_anomalies_are_printed_all_or_one(fencepost):
    code, out, _ = fencepost("plugins", "--rules")
    assert (code, "### lost-write" in out, "### duplicate" in out) == (0, True, True)
    code, out, _ = fencepost("plugins", "duplicate", "--rules")
    assert (code, "### lost-write" in out, "| transactional=true | forbidden, to be exercised |" in out) == (0, False, True)
    code, out, _ = fencepost("plugins", "duplicate", "--rules", "--json")
    assert [row["anomaly"] for row in json.loads(out)] == ["duplicate"]
    Path("my_checks.py").write_text("from fencepost.checkers.anomalies.losses import lost_write as mine\n")
    assert "### lost-write" in fencepost("plugins", "my_checks:mine", "--rules")[1]
    Path("odd_checks.py").write_text(
        f"{ODD_CHECK}odd = partition_check('odd', rules=(Rule(ALLOWED, 'why', {{'ack': '0'}}),))(odd)\n"
    )
    code, _, err = fencepost("plugins", "odd_checks:odd", "--rules")
    assert (code, 'odd: rule 1: a contract has no key "ack"; did you mean "acks"?' in err) == (254, True)
    code, _, err = fencepost("plugins", "duplicates", "--rules")
    assert (code, 'unknown anomaly "duplicates"; did you mean "duplicate"?' in err) == (254, True)


def test_plugins_lists_installed_plug_ins_and_marks_those_that_cannot_be_used(fencepost):
    code, out, _ = fencepost("plugins")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "nemesis hammer Hits a broker." in rows
    assert any(row.startswith("nemesis kill ") for row in rows)
    assert any(row.startswith("nemesis broken cannot be used:") for row in rows)


def test_plugins_with_a_name_prints_its_options(fencepost):
    _, out, _ = fencepost("plugins", "letters")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "letters (workload)" in rows
    assert out.count("how many write") == 1
    assert "writers a whole number 8 how many write at the same time" in rows
    described = json.loads(fencepost("plugins", "letters", "--json")[1])
    assert [option["name"] for option in described[0]["options"]] == ["writers", "sends", "slow"]


@pytest.mark.parametrize(("name", "internal"), [("lost-write", "CheckResult"), ("lost-write", "tests/"), ("kill", "ClassVar")])
def test_plugins_shows_what_an_author_of_campaigns_needs_and_no_internals(fencepost, name, internal):
    code, out, _ = fencepost("plugins", name)
    assert code == 0
    assert internal not in out
    if name == "lost-write":
        assert "A promised record that a completed final read did not return." in out
        assert "It has no options." in out


def test_plugins_finds_a_class_in_the_current_directory(fencepost):
    text = 'class Stutter:\n    """Freezes shortly, again and again."""\n    def inject(self, cluster, rng): ...\n'
    Path("my_faults.py").write_text(text)
    assert "Freezes shortly" in fencepost("plugins", "my_faults:Stutter")[1]


def test_plugins_lists_families_of_clients_and_shows_their_versions(fencepost):
    assert any(line.startswith("driver    franz-go ") for line in fencepost("plugins")[1].splitlines())
    code, out, _ = fencepost("plugins", "java")
    assert code == 0
    assert "Versions: every release of kafka-clients" in out
    assert "fencepost client check java" in out


@pytest.mark.parametrize(
    ("made", "hint"),
    [
        ("partition_check('x', evidance=1)(len)", "'evidance'; did you mean \"evidence\"?"),
        ("Needs(absense={1})", "'absense'; did you mean \"absence\"?"),
        ("Needs(absence={1}, zzzz=2)", "argument 'zzzz'\n"),
    ],
)
def test_plugins_names_the_argument_that_was_meant(fencepost, made, hint):
    Path("my_checks.py").write_text(f"from fencepost.checkers.api import Needs, partition_check\n\nX = {made}\n")
    code, _, err = fencepost("plugins", "my_checks:X")
    assert code == 254
    assert hint in err


def test_selfcheck_asks_a_check_of_yours_for_its_damages(fencepost, monkeypatch):
    """A check that finds nothing misses the damage that it declares."""
    Path("my_checks.py").write_text(
        "from fencepost.checkers.api import CheckResult, PlantedDamage, DamagedHistory, partition_check\n\n"
        "def plant(rows, rng):\n    return DamagedHistory(rows, 'nothing')\n\n"
        "@partition_check('blind', damages=(PlantedDamage('none', plant, ('blind',)),))\n"
        "def blind(log):\n    'Nothing.'\n    return CheckResult(1)\n"
    )
    monkeypatch.setattr("fencepost.checkers.engine.registry.installed_checks", lambda: ([], []))
    code, out, _ = fencepost("selfcheck", "--checker", "my_checks:blind")
    assert code == 1
    assert re.search(r"^none +blind +FAILED", out, re.MULTILINE)


def test_plugins_refuses_what_is_no_plug_in(fencepost):
    code, out, err = fencepost("plugins", "os:getcwd")
    assert (code, out) == (254, "")
    assert '"os:getcwd" is no plug-in: a nemesis has inject and heal' in err


def test_a_table_in_a_pipe_has_whole_rows_without_blanks_at_their_end(fencepost, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = fencepost("plugins")[1].splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert "nemesis   kill                      Sends SIGKILL to nodes." in lines
    assert max(len(line) for line in lines) > 100


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--time", "30x"), "'30x' is no length of time; write seconds, or 90s, 5m, 2h"),
        (("--time", "soon"), "'soon' is no length of time"),
        (
            ("--producer", "ack=all"),
            'No such configuration property: "ack"; did you mean "acks"?',
        ),
        (("--consumer", "isolation=x"), "No such configuration property"),
        (("--client", "./driver.py"), '--client: "./driver.py" is not executable: chmod +x ./driver.py'),
        (("--client", "./nothing"), '"./nothing" is no program that can be executed here; there is no such file'),
        (("--client", "./"), '"./" is a directory, no program'),
    ],
)
def test_a_mistake_names_its_remedy(fencepost, words, text):
    Path("driver.py").write_text("")
    code, _, err = fencepost("run", *words)
    assert code == 254
    assert text in err


def test_plugins_asks_a_workload_for_its_topics_roles_and_operations(fencepost):
    Path("my_workloads.py").write_text(
        "from fencepost.workloads.idempotent import Idempotent\nfrom fencepost.harness.api import Writer\n\n\n"
        "class Odd(Idempotent):\n    def roles(self):\n        return (Writer(transactional='yes'),)\n"
    )
    code, out, _ = fencepost("plugins", "my_workloads:Odd")
    assert (code, "Odd.roles(): Writer.transactional must be of type bool, not 'yes'" in out) == (254, True)


def test_plugins_with_an_unknown_name_exits_with_254(fencepost):
    code, _, err = fencepost("plugins", "hamer")
    assert code == 254
    assert 'did you mean "hammer"?' in err


def test_doctor_prints_a_table_or_json(fencepost, monkeypatch):
    monkeypatch.setattr("fencepost.clusters.kafka.distribution.verify", lambda version: [])  # `test_machine` reads the files
    code, out, _ = fencepost("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)}
    assert findings["python"]["text"] == ".".join(map(str, sys.version_info[:3]))
    assert code == (1 if any(finding["ok"] is False for finding in findings.values()) else 0)
    assert "run is possible here" in fencepost("doctor")[1]


@pytest.fixture
def only_ours(monkeypatch, tmp_path):
    """Nothing of other runs on this machine beside the results, for `clean`."""
    monkeypatch.setenv("FENCEPOST_CACHE", "cache")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("fencepost.harness.plugins.services.docker", lambda: Docker([]))


class Docker:
    """Leftovers of runs in Docker; an error when it does not answer."""

    def __init__(self, left):
        self.left = left

    def leftovers(self):
        if isinstance(self.left, Exception):
            raise self.left
        return self.left


class LeftInDocker:
    """Leftovers of one run there."""

    def __init__(self, user=""):
        self.user, self.live, self.removed = user, bool(user), False

    def __str__(self):
        return "1 network of run y in Docker"

    def remove(self):
        assert not self.live
        self.removed = True


def test_clean_removes_data_of_finished_runs_and_with_an_option_old_runs(fencepost, only_ours):
    fencepost(*RUN, "--name", "valid")
    [run] = store.list_runs(Path("results"))
    (run.directory / "data" / "n1").mkdir(parents=True)
    assert fencepost("clean")[1] == f"removed {run.directory}/data\n"
    assert fencepost("clean")[1] == "nothing removed\n"
    plan = json.loads((run.directory / "plan.json").read_text())
    write_plan(run.directory, {**plan, "created": "2020-01-01T00:00:00Z"})
    assert fencepost("clean", "--runs", "30", "--yes")[1] == f"removed {run.directory}\n"
    assert not run.directory.exists()


def test_clean_leaves_a_run_in_use_alone_and_names_its_user(fencepost, only_ours):
    """Its data, and all of it when it is old."""
    fencepost(*RUN, "--name", "valid")
    [run] = store.list_runs(Path("results"))
    (run.directory / "data").mkdir()
    with liveness.hold(run.directory):
        _, out, _ = fencepost("clean", "--runs", "0", "--yes")
    assert re.search(rf"left alone: {run.directory}, in use by .* \(process {os.getpid()} on ", out)
    assert out.endswith("nothing removed\n")
    assert run.path("data").is_dir()


def test_clean_says_what_is_used_in_docker_and_that_a_daemon_does_not_answer(fencepost, only_ours, monkeypatch):
    dead, live = LeftInDocker(), LeftInDocker("its process 7 is alive")
    monkeypatch.setattr("fencepost.harness.plugins.services.docker", lambda: Docker([dead, live]))
    lines = fencepost("clean")[1].splitlines()
    assert lines == ["removed 1 network of run y in Docker", "left alone: 1 network of run y in Docker; its process 7 is alive"]
    assert (dead.removed, live.removed) == (True, False)
    monkeypatch.setattr("fencepost.harness.plugins.services.docker", lambda: Docker(ClusterError("no Docker daemon answers")))
    code, out, _ = fencepost("clean")
    assert (code, out) == (0, "what may be left in Docker is not known: no Docker daemon answers\nnothing removed\n")


def test_versions_of_connect_are_fetched_once_and_listed(fencepost, tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    assert fencepost("connect", "list", "--json")[:2] == (0, "[]\n")
    wanted = []

    def fetched(title, artifacts, directory, hint="", ivy=None):
        wanted.append(title)
        (directory / "connect-runtime-3.9.1.jar").write_text("classes")

    monkeypatch.setattr("fencepost.harness.fetching.maven.fetch", fetched)
    code, out, _ = fencepost("connect", "fetch", "3.9.1")
    assert (code, out.splitlines()[-1]) == (0, f"Kafka Connect 3.9.1: 1 jars in {tmp_path}/connect/3.9.1")
    assert fencepost("connect", "fetch", "3.9.1")[0] == 0
    assert wanted == ["Kafka Connect 3.9.1"]
    assert "3.9.1" in fencepost("connect", "list")[1]
    code, _, err = fencepost("connect", "fetch", "3.1.2")
    assert code == 254
    assert "Kafka Connect 3.1.2 is too old: workers may change to 3.2.0 or later" in err


def test_every_command_has_help(fencepost):
    assert fencepost("--version")[1].startswith("fencepost ")
    nested = (["cluster", "fetch"], ["cluster", "image"], ["cluster", "list"], ["nemesis", "check"], ["connect", "fetch"])
    for command in ([], *([name] for name in main.COMMANDS), *nested):
        code, out, _ = fencepost(*command, "--help")
        assert code == 0
        assert "Usage: fencepost" in out
    assert "Exit codes: 0 everything as expected" in fencepost()[1]


@pytest.mark.parametrize(
    "master", ["locl", "local[0]", "local[*", "spark://host", "spark:host:7077", "mesos://host:5050", "", "http://h:1"]
)
@pytest.mark.parametrize("command", [["check", "latest"], ["selfcheck"], RUN, ["campaign", "night.toml"]])
def test_a_spark_master_that_there_is_not_is_found_before_anything_starts(fencepost, command, master):
    a_campaign(some_tests(("valid", "valid")))
    code, _, err = fencepost(*command, "--spark-master", master)
    assert (code, fencepost.engines) == (254, [])
    assert f'--spark-master "{master}": no master of Spark; there are local[*]' in err


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[*, 4]",
        "spark://a:7077,b:7077",
        "spark://[::1]:7077",
        "yarn",
        "k8s://https://h:443",
    ],
)
def test_every_kind_of_spark_master_is_accepted(master):
    assert console.spark_master(master) == master


@pytest.mark.parametrize(
    "arguments",
    [
        [*RUN, "--set", "writres=2", "--json"],
        ["run", "--frobnicate", "--json"],
        ["campaign", "nowhere.toml", "--json"],
        ["campaign", "--json"],
        ["check", "nothing", "--json"],
        ["plugins", "hamer", "--json"],
        ["selfcheck", "nothing", "--json"],
        ["list", "--json", "--frob"],
    ],
)
def test_with_json_what_is_wrong_is_json_too(fencepost, arguments):
    code, out, err = fencepost(*arguments)
    assert (code, json.loads(out)["exit"]) == (254, 254)
    assert all(isinstance(text, str) and text for text in json.loads(out)["mistakes"])
    assert err


def test_with_json_what_breaks_is_json_too(fencepost, monkeypatch):
    monkeypatch.setattr(index, "indexed", lambda *_: 1 / 0)
    code, out, _ = fencepost("list", "--json")
    assert (code, json.loads(out)["exit"]) == (255, 255)
    assert "ZeroDivisionError" in json.loads(out)["errors"][0]


@pytest.mark.parametrize("results", ["night.toml", "night.toml/below", "/proc/nothing", "x" * 300])
def test_results_that_cannot_be_written_are_a_mistake_in_one_sentence(fencepost, results):
    file = a_campaign(some_tests(("valid", "valid")))
    for command in (RUN, ["campaign", file]):
        code, _, err = fencepost(*command, "--results", results)
        assert (code, fencepost.engines) == (254, [])
        assert err.startswith(f"--results {results}: runs cannot be written there: ")
        assert err.endswith("name another folder\n1 mistake; nothing was started\n")


UNREADABLE = (
    *(["check", "x" * 5000], ["report", "x" * 5000], ["export", "x\0y"], ["report", "x\0y"], ["list", "--results", "night.toml"]),
    *([command, "loop"] for command in ("check", "report", "export", "selfcheck", "campaign", "plugins")),
    *([command, "latest", "--results", "loop"] for command in ("check", "report", "selfcheck")),
    ["list", "--results", "loop"],
)


@pytest.mark.parametrize("arguments", UNREADABLE)
def test_paths_that_cannot_be_read_cause_no_traceback(fencepost, arguments):
    a_campaign("")
    Path("loop").symlink_to("loop")
    code, out, err = fencepost(*arguments)
    assert code == (0 if arguments == ["list", "--results", "night.toml"] else 254)
    assert "Traceback" not in out + err


def test_the_command_that_repeats_a_run_has_every_option_that_was_given(fencepost):
    given = ["--results", "else where", "--spark-master", "local[1]", "--json", "--time", "60", "--spark-conf", "spark.a=b c"]
    fencepost(*RUN, "--name", "valid", *given, "--spark-conf", "spark.hadoop.fs.s3a.secret.key=hush", "--seed", "3")
    [plan] = [json.loads(path.read_text()) for path in Path("else where").glob("valid/*/plan.json")]
    where = ("--results 'else where'", "--spark-master 'local[1]'", "--spark-conf 'spark.a=b c'")
    for words in (*where, "--json", "--time 60.0", "--seed 3"):
        assert f" {words}" in plan["command"]
    assert "--spark-conf 'spark.hadoop.fs.s3a.secret.key=***'" in plan["command"]


def test_the_command_that_repeats_a_run_of_a_campaign_has_its_options_too(fencepost):
    file = a_campaign(some_tests(("valid", "valid")))
    given = ["--results", "there", "--cluster-set", "brokers=5", "--spark-master", "local[1]", "--spark-conf", "spark.a=b"]
    _, out, _ = fencepost("campaign", file, *given)
    [repeat] = [line for line in out.splitlines() if line.startswith("repeat: ")]
    words = "fencepost campaign night.toml --only valid --seed 7 --cluster-set brokers=5 --results there"
    assert repeat == f"repeat: {words} --spark-master 'local[1]' --spark-conf spark.a=b"


def test_a_dry_run_lists_the_test_and_performs_nothing(fencepost):
    code, out, _ = fencepost("run", "--dry-run", "-n", "kill", "-n", "pause", "--time", "30", "--seed", "7")
    assert (code, fencepost.engines) == (0, [])
    assert out.splitlines()[1].split() == ["transactions", "30", "s", "kill,", "pause", "valid", "7"]
    (only,) = json.loads(fencepost("run", "--dry-run", "--json", "--time", "30", "--seed", "7")[1])
    assert only["command"] == "fencepost run --time 30.0 --json --seed 7"


def test_a_dry_run_names_mistakes(fencepost):
    code, _, err = fencepost("run", "--dry-run", "--brokers", "3", "--topic", "min.insync.replicas=5")
    assert code == 254
    assert err.startswith("--topic min.insync.replicas: there are 3 brokers, not 5")


@pytest.mark.parametrize(
    ("option", "value", "bound"),
    [
        ("--time", "nan", "--time: must be a finite number, not nan"),
        ("--time", "inf", "--time: must be a finite number, not inf"),
        ("--time", "1e9", "--time: must be at most 604800, not 1000000000"),
        ("--rate", "-1", "--rate: must be at least 0, not -1"),
        ("--rate", "nan", "--rate: must be a finite number, not nan"),
        ("--seed", "-1", "--seed: must be at least 0, not -1"),
        ("--brokers", "0", "--brokers: must be between 1 and 50, not 0"),
        ("--brokers", "1000000000000", "--brokers: must be between 1 and 50, not 1000000000000"),
        ("--set", "writers=0", "--set writers: must be between 1 and 500, not 0"),
        ("--set", "partitions=100000000", "--set partitions: must be between 1 and 5000, not 100000000"),
        ("--set", "think_ms=nan", "--set think_ms: must be a finite number, not nan"),
        ("--nemesis", "kill,every_s=nan", "--nemesis #1 every_s: must be a finite number, not nan"),
        ("--nemesis", "kill,every_s=[0,inf]", "--nemesis #1 every_s: must be a finite number, not inf"),
        ("--nemesis", "kill,lasts_s=-1", "--nemesis #1 lasts_s: must be above 0, not -1"),
        ("--nemesis", "kill,answer_within_s=inf", "--nemesis #1 answer_within_s: must be a finite number, not inf"),
        ("--kafka", "254", '--kafka: "254" is no version of Kafka; one is written like 4.4.0'),
        ("--kafka", "../../x", '--kafka: "../../x" is no version of Kafka'),
    ],
)
def test_an_option_is_refused_with_its_bound(fencepost, option, value, bound):
    code, _, err = fencepost("run", "-n", "none", option, value)
    assert (code, fencepost.engines) == (254, [])
    assert err.startswith(bound)
    assert "1 mistake; nothing was started" in err


def test_a_campaign_is_shown_as_its_file_is(fencepost):
    code, out, _ = fencepost("campaign", "external", "--show")
    assert (code, out) == (0, (CAMPAIGNS / "external.toml").read_text())


def test_a_cluster_that_cannot_be_had_is_said_once_and_leaves_nothing(fencepost):
    code, out, err = fencepost(*RUN, "--name", "absent")
    assert (code, (out + err).count("no Java 17 or newer found")) == (254, 1)
    assert list(Path("results").iterdir()) == []
    assert fencepost("list")[1] == "no runs below results\n"


@pytest.mark.parametrize("content", [b"garbage\n", b"", b"\xff\xfe\x00", b"{}\n", b"[" * 100_000], ids=repr)
@pytest.mark.parametrize("name", ["h.edn", "h.json", "h.parquet"])
def test_a_history_that_cannot_be_read_is_said_once_and_leaves_nothing(fencepost, name, content):
    Path(name).write_bytes(content)
    code, out, err = fencepost("check", name)
    assert (code, out) == (254, "")
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err
    assert not Path("results").exists() or list(Path("results").iterdir()) == []
    code, out, _ = fencepost("check", name, "--json")
    assert (code, json.loads(out)["exit"], len(json.loads(out)["errors"])) == (254, 254, 1)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ClusterError("no Docker daemon answers"), 254, "no Docker daemon answers\n"),
        (HistoryError("cut off"), 254, "cut off\n"),
        (MachineError("no Spark"), 254, "no Spark\n"),
        (UnwritableFile(["x.html: no room"]), 254, "x.html: no room\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 254, "no room is left on the disk: make some"),
        (OSError(errno.EMFILE, "Too many open files"), 254, "files here, which are too few: raise the limit (ulimit -n 4096)"),
        (MemoryError(), 254, "not enough memory"),
        (HarnessError("the kit ended early"), 255, "HarnessError: the kit ended early\n"),
        (OSError(errno.ENOTEMPTY, "odd"), 255, "Traceback"),
    ],
)
def test_what_cannot_be_used_is_254_and_what_is_our_bug_is_255(fencepost, monkeypatch, error, code, words):
    def fail(*_):
        raise error

    monkeypatch.setattr(index, "indexed", fail)
    left, _, err = fencepost("list")
    assert (left, words in err, "nothing was started" in err) == (code, True, False)


@pytest.mark.parametrize("command", [RUN, ["campaign", "night.toml"]], ids=["run", "campaign"])
def test_too_few_files_are_said_before_anything_is_started(fencepost, monkeypatch, command):
    a_campaign(some_tests(("valid", "valid")))
    monkeypatch.setattr(limits, "open_files", lambda: 256)
    code, _, err = fencepost(*command)
    assert (code, fencepost.engines, Path("results").exists()) == (254, [], False)
    assert "a process may open 256 files here, and a run needs 1024: raise the limit (ulimit -n 4096)" in err


def test_nobody_looks_for_garbage_in_memory_that_is_about_to_be_gone(fencepost, monkeypatch):
    at_exit = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    assert fencepost("--version")[0] == 0
    assert gc.freeze in at_exit
