"""Requests to the served site: paths, hosts, ranges and types, by tables."""

from __future__ import annotations

import pytest

from fencepost.harness.site.requests import LONGEST_PATH, BadPath, byte_range, content_type, is_our_host, segments


@pytest.mark.parametrize(
    ("target", "decoded"),
    [
        ("/", [""]),
        ("/index.html?x=/../#y", ["index.html"]),
        ("/runs/c/r/", ["runs", "c", "r", ""]),
        ("/runs/a%20b/%C3%BC%25%22%0A", ["runs", "a b", 'ü%"\n']),
        ("/runs/a+b/...", ["runs", "a+b", "..."]),
        ("/%ff", ["\udcff"]),
        ("/a\\b", ["a\\b"]),
        ("/%252e%252e/x", ["%2e%2e", "x"]),
    ],
)
def test_a_path_is_split_before_it_is_decoded(target, decoded):
    assert segments(target) == decoded


@pytest.mark.parametrize(
    "target",
    [
        "",
        "x",
        "*",
        "http://127.0.0.1/",
        "//etc/passwd",
        "/..",
        "/../etc/passwd",
        "/runs/../../etc/passwd",
        "/%2e%2e/x",
        "/.%2E/x",
        "/runs/./x",
        "/runs/%2e/x",
        "/runs//x",
        "/runs/..%2f..%2fetc%2fpasswd",
        "/runs/a%2Fb",
        "/%2fetc/passwd",
        "/runs/c/r/x%00.html",
        "/runs/c/r/%zz",
        "/runs/c/%",
        "/runs/c/r/..",
        "/" + "a" * LONGEST_PATH,
    ],
)
def test_what_names_nothing_that_could_be_there_is_refused(target):
    with pytest.raises(BadPath):
        segments(target)


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8700", True),
        ("localhost:8700", True),
        ("LOCALHOST", True),
        ("[::1]:8700", True),
        ("[::1]", True),
        ("10.0.0.7:8700", True),
        ("site.lan:8700", True),
        ("evil.example", False),
        ("evil.example:8700", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("127.0.0.1:8700:9", False),
        ("127.0.0.1@evil.example", False),
        ("[evil.example]", False),
    ],
)
def test_a_request_under_another_name_is_of_another_site(host, ours):
    assert is_our_host([host], "site.lan") is ours


def test_a_request_without_host_or_with_two_is_refused():
    assert not is_our_host([], "127.0.0.1")
    assert not is_our_host(["127.0.0.1", "evil.example"], "127.0.0.1")


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        (None, None),
        ("bytes=0-", (0, 10)),
        ("bytes=2-4", (2, 5)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=9-99", (9, 10)),
        ("bytes=0-1,4-5", None),
        ("lines=0-1", None),
        ("bytes=4-2", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=" + "9" * 99 + "-", None),
    ],
)
def test_a_single_range_of_bytes_is_answered_and_anything_else_is_the_whole(header, asked):
    assert byte_range(header, 10) == asked


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_without_a_byte_of_the_file_is_refused(header):
    with pytest.raises(ValueError, match="no byte"):
        byte_range(header, 10)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("report.html", "text/html"),
        ("judgements/x/report.html", "text/html"),
        ("evil.html", "application/octet-stream"),
        ("logs/n1/server.log", "text/plain"),
        ("logs/n1/page.html", "text/plain"),
        ("logs/c0", "text/plain"),
        ("logs/x.svg", "text/plain"),
        ("history/c0-0.jsonl", "text/plain"),
        ("plan.json", "application/json"),
        ("history.parquet", "application/octet-stream"),
        ("x.svg", "application/octet-stream"),
        ("x.xhtml", "application/octet-stream"),
        ("REPORT.HTML", "text/html"),
        ("summary.md", "text/plain"),
    ],
)
def test_types_are_those_of_a_table_and_only_a_report_is_a_page(path, kind):
    assert content_type(path.split("/")).split(";")[0] == kind
