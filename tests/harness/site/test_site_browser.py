"""The page over all runs in a real browser: filters, keyboard, windows, the comparison; and nothing in it can be made to run."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, unquote

import pytest
from support import report_example as example
from support.browser import assert_sound
from support.many_runs import EVIL, finding, invalid, run_rows, write_pages, write_run

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render
from fencepost.harness.site.server import SiteServer
from fencepost.harness.site.static import write_site

pytestmark = pytest.mark.browser
AXE = (Path(__file__).parents[2] / "support" / "data" / "axe" / "axe.min.js").read_text("utf-8")
PAGES = ("index.html", "grid.html", "findings.html", "compare.html")
COUNT = "document.getElementById('count').textContent"
DRAWN = "[...document.querySelectorAll('#runs tbody tr:not(.spacer)')]"
SETTLED = "await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));"


def played(script: str) -> str:
    return f"(async () => {{ const settled = async () => {{ {SETTLED} }}; {script} }})()"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Two thousand runs of forty tests, one in a hundred red."""
    folder = tmp_path_factory.mktemp("many")
    write_pages(folder, run_rows(2_000))
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A site on disk: three nights of a test, the last of them red, with another broker; and hostile runs."""
    base = tmp_path_factory.mktemp("small")
    results = base / "results"
    for night, kafka, verdict in ((1, "4.3.0", None), (2, "4.3.0", None), (3, "4.4.0", invalid(finding()))):
        created = f"2026-11-0{night}T01:00:00+00:00"
        plan = {
            "created": created,
            "round": f"2026110{night}T010000Z",
            "cluster": {"kind": "local", "description": {"kafka": kafka}},
        }
        write_run(results, "nightly", f"2026110{night}T010000Z-night{night}", plan=plan, verdict=verdict or {})
    odd = "20261104T010000Z-x'\"<b>&%2e #?\n"
    write_run(
        results, "ev<i>l %41", odd, plan={"test": EVIL, "campaign": EVIL, "run": EVIL}, verdict=invalid(finding(EVIL, EVIL))
    )
    raw = os.path.join(os.fsencode(results), b"nightly", b"20261105T010000Z-\xff")
    os.rename(write_run(results, "nightly", "20261105T010000Z-raw", plan={"test": "bytes"}), os.fsdecode(raw))
    write_site(results, base / "site")
    return base / "site"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [390, 1440])
def test_each_page_is_sound_and_no_wider_than_its_window(page, width, browse, small, many):
    for folder in (small, many):
        dom = browse(folder / page, {"prefers-color-scheme": "dark"}, play="document.documentElement.scrollWidth", width=width)
        assert_sound(dom)
        assert dom.answer <= width


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (1440, "dark"), pytest.param(1440, "light", marks=pytest.mark.nightly)]
)
def test_no_page_keeps_anybody_out(browse, small, width, scheme):
    """axe has no finding on any page, on a telephone and on a desk."""
    judged = """
      const { violations } = await axe.run(document, { resultTypes: ["violations"] });
      return violations.map((rule) => [rule.id, ...rule.nodes.slice(0, 5).map((node) => node.html)]);
    """
    for page in [*PAGES, *(f"tests/{path.name}" for path in (small / "tests").iterdir())]:
        fragment = "#a=night3&b=night1" if page == "compare.html" else ""
        play = f"{AXE};{played(judged)}"
        dom = browse(small / page, {"prefers-color-scheme": scheme}, width=width, play=play, fragment=fragment)
        assert dom.answer == [], page


def test_the_page_of_each_test_is_sound(browse, small):
    pages = sorted((small / "tests").iterdir())
    assert len(pages) == 3
    for page in pages:
        assert_sound(browse(page))


def test_hostile_texts_and_names_run_nothing_and_their_links_lead_to_files(browse, small):
    for page in [*PAGES, *(f"tests/{path.name}" for path in (small / "tests").iterdir())]:
        dom = browse(small / page)
        assert_sound(dom)
        assert dom.count("img") == 0
        assert not [attrs for _, attrs in dom.elements if "data-owned" in attrs or any(key.startswith("on") for key in attrs)]
        for tag, attrs in dom.elements:
            address = attrs.get("href") or ""
            if tag == "a" and not address.startswith("#"):
                target = ((small / page).parent / unquote(address.partition("#")[0], errors="surrogateescape")).resolve()
                assert target.is_file(), (page, address)


def test_a_red_morning_leads_to_its_cause_at_once(browse, small):
    """The first link below the heading is the finding of the red run."""
    dom = browse(small / "index.html", play="document.querySelector('.round li a').getAttribute('href')")
    assert "1 of" in dom.answer or "report.html#finding-1" in dom.answer
    assert "A record is nowhere." in "".join(dom.text.values())


def test_words_and_terms_filter_and_the_fragment_keeps_them(browse, many):
    play = played(
        f"""
        const input = document.getElementById("filter"), seen = [];
        const lines = ['test="test 7 with a pause of the leader"', 'anomaly:lost is:red', '-kafka:4.3',
          'since:2026-10-01 until:2026-10-02', 'librdkafka pause', 'nothing is like this'];
        for (const line of lines) {{
          input.value = line;
          input.dispatchEvent(new Event("input"));
          seen.push({COUNT}.split(" ")[0], new URLSearchParams(location.hash.slice(1)).get("q") === line);
        }}
        return [...seen, document.getElementById("none").hidden].join(" ");
        """
    )
    dom = browse(many / "index.html", play=play)
    assert_sound(dom)
    counts = dom.answer.split(" ")
    assert counts[0] == "50"
    assert counts[6:8] == ["80", "true"]
    assert counts[1::2] == ["true"] * 6
    assert int(counts[2]) < 20
    assert counts[10:] == ["0", "true", "false"]


def test_a_fragment_opens_the_page_filtered_and_sorted(browse, many):
    fragment = "#" + f"q={quote('is:red')}&sort=created"
    created = f"{DRAWN}.map(row => row.querySelector('.when span').textContent)"
    dom = browse(many / "index.html", play=f"[{COUNT}, document.getElementById('red').checked, {created}]", fragment=fragment)
    count, checked, times = dom.answer
    assert checked
    assert count.split(" ")[0] == str(len(times))
    assert times == sorted(times)


def test_the_choosers_write_terms_and_read_them(browse, many):
    play = played(
        f"""
        const chooser = document.querySelector("select[data-key=anomaly]");
        chooser.value = "lost-write";
        chooser.dispatchEvent(new Event("change"));
        document.getElementById("red").click();
        const seen = [document.getElementById("filter").value, {COUNT}];
        document.getElementById("clear").click();
        return [...seen, chooser.value, document.getElementById("red").checked, location.hash];
        """
    )
    line, count, *cleared = browse(many / "index.html", play=play).answer
    assert line == 'anomaly="lost-write" is:red'
    assert 0 < int(count.split(" ")[0]) < 20
    assert cleared == ["", False, "#"] or cleared == ["", False, ""]


def test_only_the_rows_in_view_are_drawn_wherever_that_is(browse, many):
    play = played(
        f"""
        const seen = [{DRAWN}.length];
        scrollTo({{ top: document.documentElement.scrollHeight, behavior: "instant" }});
        await settled();
        const rows = {DRAWN}, last = rows.at(-1);
        seen.push(rows.length, last.getAttribute("aria-rowindex"), last.getBoundingClientRect().top < innerHeight);
        const height = document.documentElement.scrollHeight;
        scrollTo({{ top: height / 2, behavior: "instant" }});
        await settled();
        return [...seen, {DRAWN}.length, Math.abs(document.documentElement.scrollHeight - height) < 2];
        """
    )
    for width in (390, 1440):
        dom = browse(many / "index.html", play=play, width=width)
        first, at_end, last, is_seen, between, is_still = dom.answer
        assert max(first, at_end, between) < 80
        assert (last, is_seen, is_still) == ("2001", True, True)


def test_rows_are_red_first_then_the_newest(browse, many):
    play = f"{DRAWN}.map(row => row.classList.contains('red'))"
    reds = browse(many / "index.html", play=play).answer
    assert reds == sorted(reds, reverse=True)
    assert reds[0]


def test_keys_move_choose_and_compare(browse, many):
    play = played(
        """
        const press = (name) => new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true });
        const key = (name) => document.activeElement.dispatchEvent(press(name));
        const row = () => document.activeElement.closest("tr").getAttribute("aria-rowindex");
        key("j"); key("j"); key("j"); key("k"); await settled();
        const seen = [row()];
        key("x"); key("j"); key("x"); await settled();
        const link = document.getElementById("compare-link");
        seen.push(document.getElementById("chosen").hidden, new URLSearchParams(link.hash.slice(1)).has("b"), link.hidden);
        for (let i = 0; i < 60; i++) key("j");
        await settled();
        seen.push(row(), document.activeElement.getBoundingClientRect().top < innerHeight);
        key("/");
        seen.push(document.activeElement.id);
        return seen;
        """
    )
    assert browse(many / "index.html", play=play).answer == ["3", False, True, False, "64", True, "filter"]


def test_on_paper_every_row_is_there(browse, many):
    play = f"dispatchEvent(new Event('beforeprint')); {DRAWN}.length"
    fragment = "#q=" + quote("anomaly:lost-write")
    dom = browse(
        many / "index.html",
        {"media": "print"},
        play=f"[({COUNT}).split(' ')[0], ({play.replace('; ', ', ')})]",
        fragment=fragment,
    )
    assert int(dom.answer[0]) == dom.answer[1] > 30


def test_two_runs_are_compared_with_what_differs_first(browse, small):
    dom = browse(small / "compare.html", play="document.getElementById('compared').innerText", fragment="#a=night3&b=night1")
    assert_sound(dom)
    before, _, _ = dom.answer.partition("are alike")
    assert "What differs" in before
    for words in ("invalid, against expectation", "valid, as expected", "lost-write", "not found", "Kafka", "4.3.0", "4.4.0"):
        assert words in before
    assert "acks" not in before


def test_a_run_alone_is_compared_with_the_last_that_was_as_expected(browse, small):
    values = "[document.getElementById('b').value, document.getElementById('problem').textContent]"
    assert browse(small / "compare.html", play=values, fragment="#a=night3").answer == ["nightly/20261102T010000Z-night2", ""]
    assert browse(small / "compare.html", play=values, fragment="#a=night1").answer[0] == ""
    assert "No run" in browse(small / "compare.html", play=values, fragment="#a=nothing&b=night1").answer[1]
    for fragment in ("#a=%00&b=%ff", "#a=</script>&b=__proto__", "#" + "a" * 5_000, "#a&b"):
        assert_sound(browse(small / "compare.html", fragment=fragment))


def test_a_served_page_follows_the_runs_and_keeps_its_filter(browse, tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr("fencepost.harness.site.live.EVERY_S", 0.0)
    monkeypatch.setattr("fencepost.harness.site.live.SHARE", 0)
    first = write_run(tmp_path, "nightly", "20261101T010000Z-first")
    beside = tmp_path_factory.mktemp("beside")
    second = write_run(beside, "nightly", "20261102T010000Z-second", verdict=invalid(finding()))
    with SiteServer(tmp_path, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True)
        thread.start()
        writing = threading.Timer(0.5, second.rename, (first.with_name(second.name),))  # all of it at once
        writing.start()
        play = played(
            f"""
            const heading = () => document.querySelector("h1").textContent, red = () => document.querySelector(".round li a");
            for (let i = 0; i < 600 && !heading().includes("2 runs"); i++) await new Promise(done => setTimeout(done, 100));
            return [heading(), {COUNT}, location.hash, red().getAttribute("href")];
            """
        )
        dom = browse(SimpleNamespace(as_uri=lambda: server.url), play=play, fragment="#q=nightly")
        writing.join()
        server.shutdown()
        thread.join()
    assert_sound(dom)
    assert dom.answer[:3] == ["2 runs, 1 to look at", "2 of 2 runs, 1 to look at", "#q=nightly"]
    assert dom.answer[3].endswith("second/report.html#finding-1")


def test_a_report_works_as_it_is_served(browse, tmp_path):
    """Its own policy and the server's both hold, and let it draw."""
    directory = example.RUNS["torn"](tmp_path / "nightly" / "20261101T010000Z-report")
    render(open_run(directory))
    with SiteServer(tmp_path, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True)
        thread.start()
        address = f"{server.url}runs/nightly/{directory.name}/report.html"
        dom = browse(SimpleNamespace(as_uri=lambda: address))
        foreign = directory.with_name("20261102T010000Z-foreign")
        directory.rename(foreign)
        tell = "() => { document.title = 'reached'; }, () => { document.title = 'refused'; }"
        script = f"<script>fetch('/live.json').then({tell})</script>"
        (foreign / "report.html").write_text(f"<!doctype html><html data-ready=true><title>foreign</title>{script}")
        wait = "new Promise(done => setInterval(() => document.title !== 'foreign' && done(document.title), 50))"
        address = address.replace(directory.name, foreign.name)
        reached = browse(SimpleNamespace(as_uri=lambda: address), play=wait).answer
        server.shutdown()
        thread.join()
    assert_sound(dom)
    assert reached == "refused"
