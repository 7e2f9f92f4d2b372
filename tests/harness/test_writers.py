"""Every call that writes a file, makes a folder, or moves or removes something is in `harness.api.beneath`, or has a reason.

A run's directory may come from anywhere (docs/run-directory.md), so what writes beneath it goes through that module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fencepost

ROOT = Path(fencepost.__file__).parent
PACKAGES = ("harness", "checkers", "clusters", "nemesis", "workloads")
BENEATH = "harness/api/beneath.py"
METHODS = {  # of a Path or of a module, whatever it is called
    "write_text", "write_bytes", "mkdir", "makedirs", "touch", "symlink_to", "hardlink_to", "mknod", "mkfifo",
    "rename", "renames", "unlink", "rmdir", "removedirs", "rmtree", "copyfile", "copy2", "copytree", "move", "chmod",
    "truncate", "ftruncate", "write_feather", "write_dataset", "OSFile", "FileOutputStream",
    "mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "extractall", "extract", "make_archive",
    "memmap", "savez", "tofile", "to_parquet", "to_csv", "copyToLocalFile",
}  # fmt: skip
OF_MODULES = {"os": {"replace", "remove", "link", "symlink"}, "shutil": {"copy"}, "np": {"save"}, "numpy": {"save"}}
TABLES = {"write_table": 1, "ParquetWriter": 0}  # the place of the argument that says where to
WRITING = set("wax+")

# --------------------------------------------------------------------------------------------------
# Exceptions
# --------------------------------------------------------------------------------------------------
CACHE = "the cache of what is fetched, which is ours alone"
TEMPORARY = "a temporary directory, or a file without a name, of this process"
FRESH = "a directory that this call has just made for a new run"
NAMED = "a place that whoever gave the command has named, or the results themselves"
SANDBOX = "data of brokers, instances and nodes of the run that is performed: made by it, in its sandbox, and removed with it"
HOST = "on a host of `ssh`, in the directory that is ours there"
REMOVED = "removed as a whole: `rmtree` follows no link, and refuses one"
NO_FILE = "no file: memory, a pipe, a column"
LOCK = "a lock, opened without following a link, and only where it is a regular file without another name"

EXCEPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    CACHE: {
        "harness/fetching/archives.py": ("fetch.fill", "_unpack"),
        "harness/fetching/manifest.py": ("Manifest.write",),
        "harness/fetching/maven.py": ("fetch", "fetch_archive"),
        "harness/fetching/store.py": ("Store._fill", "Store._locked", "Store._remove_leftovers"),
        "harness/report/compiled_templates.py": ("CompiledTemplates.dump_bytecode",),
        "harness/connect/jars.py": ("_resolve",),
        "checkers/engine/class_archive.py": ("archive_options", "_adopt", "_remove_unused"),
        "clusters/kafka/setting_definitions.py": ("_keep",),
        "clusters/kfake/program.py": ("_build",),
        "clusters/local/class_archive.py": ("make",),
        "workloads/clients/golang.py": ("GoFamily.download", "GoFamily.build"),
        "workloads/clients/java.py": ("Java._compile", "Java._archive"),
        "workloads/clients/librdkafka_release.py": ("LibrdkafkaReleases.download", "_unpack"),
        "workloads/clients/node.py": ("NodeFamily.build", "_install"),
        "workloads/clients/python_packages.py": ("PythonPackage.download",),
    },
    TEMPORARY: {
        "harness/conformance/client_wire.py": ("WireStories._wire",),
        "harness/conformance/kit.py": ("log_directory",),
        "harness/fetching/built_jars.py": ("BuiltJar.rebuild", "BuiltJar._classes", "write"),
        "harness/interop/adopt.py": ("_adopt_jepsen",),
        "harness/interop/jepsen/operation_rows.py": ("write",),
        "harness/proxy/journal.py": ("lines_of",),
        "harness/system/liveness.py": ("runtime_directory", "TemporaryPlace.__init__", "TemporaryPlace.remove"),
        "harness/system/logs.py": ("ShortLog.__enter__",),
        "harness/system/programs.py": ("run",),
        "checkers/model/forks.py": ("_Fork.__init__",),
        "checkers/engine/session.py": ("_java_options", "_own_interpreter", "_start_jvm"),
        "checkers/graph/gathered_edges.py": ("_MappedArrays.__init__",),
        "checkers/history/large_partitions.py": ("PackedParts._stored",),
        "checkers/history/part_files.py": ("stored", "stored_message"),
        "harness/system/array_files.py": ("_locked", "_nameless"),
        "checkers/model/history_rows.py": ("write_rows",),
        "checkers/model/lawful_history.py": ("write_lawful",),
        "checkers/selfcheck/selfcheck.py": ("_copy", "Checker.judge_rows"),
        "clusters/docker/images.py": ("_bootstrap",),
        "clusters/fault_tools/disk_throttle/throttles.py": ("_try",),
        "clusters/local/disks.py": ("trouble",),
        "clusters/local/relay.py": ("outside",),
    },
    FRESH: {"harness/runs/store.py": ("new_run_dir",), "checkers/engine/remote.py": ("_Files.copy",)},
    NAMED: {
        "harness/cli/proxy.py": ("_unwritable",),
        "harness/cli/round_output.py": ("_notify_github",),
        "harness/interop/output.py": ("_plain",),
        "harness/plugins/public_api.py": ("",),
        "checkers/wire/page.py": ("",),
        "harness/plugins/scaffold.py": ("_new_driver", "_write"),
        "harness/runs/store.py": ("writable_root", "campaign_folder"),
        "harness/site/static.py": ("_begin",),
    },
    SANDBOX: {
        "harness/connect/java_settings.py": ("write_properties",),
        "harness/connect/plugins.py": ("plugin_path",),
        "harness/connect/worker.py": ("prepare",),
        "harness/perform/instance.py": ("Instance.run",),
        "harness/perform/sink_store.py": ("of_plan",),
        "harness/system/logs.py": ("Bound.shorten", "BoundedLogs._shorten"),
        "clusters/command/cluster.py": ("CommandCluster._write_files",),
        "clusters/docker/cluster.py": ("DockerCluster.begin",),
        "clusters/docker/disks.py": ("DiskVolumes.add",),
        "clusters/fault_tools/clocks.py": ("Clocks._write",),
        "clusters/fault_tools/corruption.py": ("_flip_at", "_cut"),
        "clusters/fault_tools/disks.py": ("fill", "clear"),
        "clusters/fault_tools/faketime.py": ("write_offset", "remove_shared_memory"),
        "clusters/fault_tools/unsynced_data.py": ("lose_unsynced", "_truncate"),
        "clusters/kafka/node_directory.py": ("wipe",),
        "clusters/kafka/storage.py": ("format_all", "collect", "_copied_anew"),
        "clusters/local/disks.py": ("MountedDisks.__init__",),
        "clusters/redpanda/cluster.py": ("RedpandaCluster.begin",),
        "clusters/ssh/cluster.py": ("SshCluster._format",),
        "workloads/connect.py": ("Connect._file",),
    },
    HOST: {
        "clusters/ssh/remote/disk_mounts.py": ("mount",),
        "clusters/ssh/remote/file_transfer.py": ("_receive_jar", "_make_directory", "_write"),
        "clusters/ssh/remote/watcher.py": ("Watcher.do_start",),
        "clusters/ssh/remote/watcher_process.py": ("launch", "_detach", "clean_up"),
    },
    REMOVED: {
        "harness/perform/performer.py": ("Performance._end_instances",),
        "harness/runs/leftovers.py": ("remove",),
        "harness/runs/runner.py": ("_remove_data",),
        "harness/runs/store.py": ("discard",),
        "clusters/local/init.py": ("remove_scratch",),
        "clusters/ssh/cluster.py": ("SshCluster.make_storage",),
    },
    NO_FILE: {
        "harness/cli/main.py": ("_fail",),
        "harness/cli/safe_console.py": ("SafeConsole.on_broken_pipe",),
        "checkers/anomalies/source_offsets.py": ("_beyond",),
        "checkers/pipeline/source_mapping.py": ("SourceMapping._unreached",),
        "harness/perform/performer.py": ("_log_to",),  # a descriptor of `beneath.appending`
        "harness/secrets.py": ("_cleaned",),  # a file of `beneath.changing`
        "checkers/selfcheck/application_damages.py": ("swap_outputs",),
        "checkers/verdict/judge.py": ("_anomalies",),
        "clusters/docker/container.py": ("PipeOutput.__init__",),
        "clusters/docker/host_python.py": ("_skeleton",),
        "clusters/docker/images.py": ("_context",),
        "clusters/fault_tools/disk_throttle/shared_page.py": ("make",),
        "clusters/ssh/remote/file_transfer.py": ("opened",),
        "clusters/ssh/remote/watcher_process.py": ("_watch",),
        "workloads/drivers/python/driver.py": ("_standard_output",),
    },
    LOCK: {"harness/system/liveness.py": ("hold", "alone", "_opened")},
}


# --------------------------------------------------------------------------------------------------
# The calls
# --------------------------------------------------------------------------------------------------
def writes(call: ast.Call, opened: set[str]) -> str:
    """The name by which a call writes; empty when it does not, as far as can be seen. opened: names of files of `replacing`."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    of = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if (of, name) == ("os", "open"):
        flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        return "os.open" if not flags.startswith("os.O_RDONLY") else ""  # flags that are computed may write
    if name in ("open", "fdopen"):
        return name if WRITING & set(_mode(call, function=isinstance(function, ast.Name) or of in ("io", "os", "gzip"))) else ""
    if name in TABLES:
        return "" if _is_opened(call, TABLES[name], opened) or (name == "write_table" and of not in ("pq", "pyarrow")) else name
    if name == "replace":
        return name if of == "os" or (len(call.args) == 1 and not call.keywords and of != "dataclasses") else ""
    if name == "rename" and call.keywords:
        return ""  # of a table's columns
    return (
        name
        if name in OF_MODULES.get(of, ())
        or (name in METHODS and isinstance(function, ast.Attribute))
        or (name in METHODS - {"write_text"} and isinstance(function, ast.Name))
        else ""
    )


def _mode(call: ast.Call, function: bool) -> str:
    """The mode of a call of `open`: the second argument of a function, the first of a method. One that is computed may write."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[1 if function else 0 :][:1]
    if not given:
        return ""
    return str(given[0].value) if isinstance(given[0], ast.Constant) else "w" if function else ""


def _is_opened(call: ast.Call, place: int, opened: set[str]) -> bool:
    """True if a table is written into a file that `replacing` has opened."""
    return len(call.args) > place and isinstance(call.args[place], ast.Name) and call.args[place].id in opened


def _opened_in(function: ast.AST) -> set[str]:
    """The names of the files that a function opens by `with replacing(...) as NAME`."""
    items = (item for node in ast.walk(function) if isinstance(node, ast.With) for item in node.items)
    return {
        item.optional_vars.id
        for item in items
        if isinstance(item.optional_vars, ast.Name) and ast.unparse(item.context_expr).startswith("replacing(")
    }


def calls_in(source: str) -> Iterator[tuple[str, str, int]]:
    """The writing calls of a module: the function that makes each, the name of what it calls, and its line."""

    def within(node: ast.AST, place: str, opened: set[str]) -> Iterator[tuple[str, str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and (name := writes(child, opened)):
                yield place, name, child.lineno
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                mine = _opened_in(child) if "replacing(" in source and not isinstance(child, ast.ClassDef) else set()
                yield from within(child, f"{place}.{child.name}".lstrip("."), opened | mine)
            else:
                yield from within(child, place, opened)

    return within(ast.parse(source), "", set())


@cache
def all_calls() -> dict[str, list[tuple[str, str, int]]]:
    """The writing calls of every module, by its path."""
    places = {package: (ROOT / package).resolve() for package in PACKAGES}
    modules = [(package, place, file) for package, place in places.items() for file in sorted(place.rglob("*.py"))]
    listed = {f"{package}/{file.relative_to(place)}": [*calls_in(file.read_text("utf-8"))] for package, place, file in modules}
    return {module: calls for module, calls in listed.items() if calls and module != BENEATH}


def excepted() -> set[tuple[str, str]]:
    return {(module, place) for modules in EXCEPTIONS.values() for module, places in modules.items() for place in places}


def test_what_writes_goes_through_beneath_or_has_a_reason():
    unlisted = [
        f"{module}:{line}: {name} in {place or 'the module'}"
        for module, calls in all_calls().items()
        for place, name, line in calls
        if (module, place) not in excepted()
    ]
    assert not unlisted, "write beneath a run's directory by harness.api.beneath, or say in EXCEPTIONS what is written to"


def test_every_exception_is_one():
    assert excepted() - {(module, place) for module, calls in all_calls().items() for place, _, _ in calls} == set()


WRITERS = (
    'open(path, "w")', 'open(path, mode="ab")', '(a / b).open("x")', 'io.open(path, "r+")', "open(path, mode)",
    'os.fdopen(number, "w")', "path.write_text(text)", "(a / b).write_bytes(raw)", "path.mkdir()", "os.makedirs(path)",
    "os.replace(a, b)", "part.replace(path)",
    "path.rename(other)", "shutil.copyfile(a, b)", "copyfile(a, b)", "shutil.copy(a, b)", "shutil.move(a, b)", "path.touch()",
    "path.unlink()", "os.remove(path)", "shutil.rmtree(path)", "rmtree(path)", "path.symlink_to(other)", "os.link(a, b)",
    "os.open(path, os.O_WRONLY | os.O_CREAT)", "os.open(path, flags)", "pq.write_table(table, path)",
    "pq.ParquetWriter(path, schema)", 'pa.OSFile(str(path), "wb")', "tempfile.mkdtemp()", "archive.extractall(path)",
    "np.save(path, array)", "array.tofile(path)", "gzip.open(path, 'wb')", "path.chmod(0o600)", "os.truncate(path, 0)",
)  # fmt: skip
OTHERS = (
    "open(path)", 'path.open("rb")', '(a / b).open("rb")', 'open(path, "rb")', "os.open(path, os.O_RDONLY)",
    'text.replace("a", "b")', "replace(value, a=1)",
    "frame.rename(columns=names)", "write_text(run.directory, file, text)", "client.open(5.0)", "writer.write_table(table)",
    "moment.replace(tzinfo=utc)", 'with replacing(a, b) as part:\n    pq.write_table(table, part)',
)  # fmt: skip


@pytest.mark.parametrize("source", WRITERS)
def test_a_writer_is_seen(source):
    assert [*calls_in(f"def f():\n    {source}")]


@pytest.mark.parametrize("source", OTHERS)
def test_others_are_not(source):
    body = source.replace("\n", "\n    ")
    assert not [*calls_in(f"def f():\n    {body}")]
