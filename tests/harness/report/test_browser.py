"""The report in a real browser: that it draws, that it can be used, and that nothing in it can be made to run."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from support import report_example as example
from support.browser import acted, assert_sound

pytestmark = pytest.mark.browser


def test_nothing_of_a_page_is_left_for_the_next(browse, tmp_path):
    """One tab opens all pages of the tests: each is loaded anew, in a window and with media of its own."""
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><meta name=viewport content=width=device-width><p style='height:9000px'>", "utf-8")
    state = "[matchMedia('(prefers-color-scheme: dark)').matches, innerWidth, scrollY, location.hash, window.mark ?? null]"
    change = "(window.mark = 1, scrollTo(0, 500), location.hash = 'b', new Promise((done) => setTimeout(done)))"
    fresh = browse(page, {"prefers-color-scheme": "light"}, play=state).answer
    seen = browse(page, {"prefers-color-scheme": "dark"}, width=390, play=f"{change}.then(() => {state})").answer
    assert seen == [True, 390, 500, "#b", 1]
    assert browse(page, {"prefers-color-scheme": "light"}, play=state, fragment="#c").answer == [*fresh[:3], "#c", None]
    with pytest.raises(AssertionError, match="keeps something"):
        browse(page, play="(localStorage.kept = 1, 0)")
    browse(page, play="localStorage.clear()")


@pytest.mark.parametrize("name", sorted(example.RUNS))
def test_every_report_draws_without_an_error(name, browse, report_of):
    """Valid, torn, unknown, empty, large and hostile runs: no script error, no refusal, nothing fetched, links to files that are
    there, and to proposals (KIPs), which the page itself does not follow.
    """
    report = report_of(name)
    dom = browse(report)
    assert_sound(dom)
    for tag, attrs in dom.elements:
        for key in ("src", "href", "action", "data", "srcset"):
            address = attrs.get(key) or "#"
            is_beside = tag == "a" and address.startswith("./") and (report.parent / unquote(address)).is_file()
            is_proposal = (tag, key) == ("a", "href") and address.startswith("https://cwiki.apache.org/confluence/display/KAFKA/")
            assert is_beside or is_proposal or address.startswith(("#", "data:,")), (tag, attrs)


def test_no_text_of_a_run_becomes_markup(browse, report_of):
    """Records, errors, settings and names with tags in them add no element, no attribute and no script."""
    dom = browse(report_of("hostile"))
    assert_sound(dom)
    assert (dom.count("script"), dom.count("img"), dom.count("svg")) == (4, 0, 0)
    assert not [attrs for _, attrs in dom.elements if "data-owned" in attrs or any(key.startswith("on") for key in attrs)]
    assert "49" not in dom.text["verdict"]
    assert "<img src=x onerror=" in dom.text["verdict"]
    assert "\\u2028\\u2029\\u202e" in dom.text["verdict"]


def test_the_policy_alone_stops_a_script(browse, report_of):
    """Were there a hole in the escaping, the browser would still refuse, and the page would say so, however long it is."""
    valid = report_of("valid")
    much = "<p>much</p>" * 200_000  # the browser pauses between a refusal at the page's beginning and the scripts at its end
    report = valid.with_name("hole.html")
    hole = f"<main>{example.EVIL}<div hidden>{much}</div>"
    report.write_text(valid.read_text("utf-8").replace("<main>", hole), "utf-8")
    dom = browse(report)
    assert not [attrs for _, attrs in dom.elements if "data-owned" in attrs]
    assert "hidden" not in dom.named("script-errors")
    assert "refused by the page's policy" in dom.text["script-errors"]


def test_a_failing_script_is_seen(browse, report_of):
    """A report whose timeline broke does not look like one without operations."""
    dom = browse(acted(report_of("valid"), "throw new Error('on purpose')"))
    assert "on purpose" in dom.text["script-errors"]


def test_jumping_to_the_first_finding_pins_its_operation(browse, report_of):
    """One click from the top of the page to the operation, its records and its errors."""
    dom = browse(acted(report_of("torn"), "document.getElementById('jump').click()"))
    assert_sound(dom)
    pinned = dom.text["pinned"]
    assert "part of finding 1" in pinned
    assert "send t-0@" in pinned
    assert "error: commit → _TIMED_OUT" in pinned


def test_a_valid_run_is_calm_and_its_permitted_findings_can_be_shown(browse, report_of):
    """No button that leads to a finding; a link to a permitted one opens its fold, and the timeline shows it on demand."""
    report = report_of("valid")
    dom = browse(report)
    assert_sound(dom)
    assert "hidden" in dom.named("jump")
    play = """
      const fold = document.querySelector("details.permitted #finding-3").closest("details");
      const result = document.getElementById("result"), pinned = document.getElementById("pinned");
      result.textContent = fold.open;
      document.querySelector("#finding-3 .show").click();
      result.textContent += " " + /part of finding 3 .permitted/.test(pinned.textContent);
      addEventListener("hashchange", () => { result.textContent += " " + fold.open; }, { once: true });
      location.hash = "finding-3";
    """
    dom = browse(acted(report, play))
    assert_sound(dom)
    assert dom.text["result"] == "false true true"


def test_hovering_over_a_curve_tells_its_values(browse, report_of):
    """The nearest sample, not a value in between; and the canvas names the words that say the same."""
    hover = """
      const over = document.querySelector('[data-chart="readers"] .u-over'), at = over.getBoundingClientRect(), seen = new Set();
      const reading = over.closest("figure").querySelector(".reading");
      for (let x = 3; x < at.width; x += 3) {
        over.dispatchEvent(new MouseEvent("mousemove", { clientX: at.left + x, clientY: at.top + 20, bubbles: true }));
        await new Promise((done) => setTimeout(done));
        const told = /unseen ([\\d,]+)/.exec(reading.textContent);
        if (told) seen.add(Number(told[1].replace(",", "")));
      }
      const { charts } = JSON.parse(document.getElementById("timeline-data").textContent);
      const counts = charts.find((chart) => chart.key === "readers").lines[0].values;
      document.documentElement.dataset.result = seen.size > 5 && [...seen].every((count) => counts.includes(count));
    """
    dom = browse(acted(report_of("valid"), f"window.playing = (async () => {{ {hover} }})()"))
    assert_sound(dom)
    assert next(attrs for tag, attrs in dom.elements if tag == "html")["data-result"] == "true"
    assert dom.named("canvas")["aria-describedby"] == "unseen"
    assert "during pause n1" in dom.text["unseen"]


def test_on_paper_a_dark_page_is_drawn_in_light_colours(browse, report_of):
    """The chart's colours are read before the printer's style applies."""
    play = """
      const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim(), seen = [];
      for (const name of ["beforeprint", "afterprint"]) { window.dispatchEvent(new Event(name)); seen.push(ink()); }
      document.getElementById("result").textContent = seen.join(" ");
    """
    dom = browse(acted(report_of("valid"), play), {"prefers-color-scheme": "dark"})
    assert_sound(dom)
    assert dom.text["result"] == "#1d2127 #e6e7e9"


def test_hovering_tells_what_an_operation_met(browse, report_of):
    """The tip is text, even when the error is a tag."""
    hover = """
      const canvas = document.getElementById("canvas"), tip = document.getElementById("tip"), at = canvas.getBoundingClientRect();
      for (let y = at.height - 5; y > 20 && !tip.textContent.includes("error:"); y -= 5)
        for (let x = 130; x < at.width && !tip.textContent.includes("error:"); x += 5)
          canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + x, clientY: at.top + y }));
      document.getElementById("result").textContent = tip.children.length;
    """
    dom = browse(acted(report_of("hostile"), hover))
    assert_sound(dom)
    assert "error: </script><script>" in dom.text["tip"]
    assert dom.text["result"] == "0"


def test_keys_and_wheel_move_the_view(browse, report_of):
    """Twenty thousand operations: zoom in by wheel and key, go to the next findings, back to the whole, unpin."""
    play = """
      const canvas = document.getElementById("canvas"), pinned = document.getElementById("pinned"), seen = [];
      const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
      const wheel = () => canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 400, cancelable: true }));
      seen.push(wheel());           // not focused: the page scrolls, so nothing is prevented
      canvas.focus();
      seen.push(wheel());
      for (const name of ["+", "-", "ArrowLeft", "ArrowRight", "0", "n", "n"]) key(name);
      seen.push(/finding 2/.test(pinned.textContent));
      key("p");
      seen.push(/finding 1/.test(pinned.textContent));
      key("Escape");
      seen.push(pinned.hidden);
      document.getElementById("result").textContent = seen.join(" ");
    """
    dom = browse(acted(report_of("large"), play))
    assert_sound(dom)
    assert dom.text["result"] == "true false true true true"


def test_a_link_into_a_fold_opens_it(browse, report_of):
    """Finding 60 is collapsed; its link shows it nevertheless."""
    path = acted(report_of("large"), "location.hash = 'finding-60'")
    settle = (
        "addEventListener('hashchange', () => {"
        " document.documentElement.dataset.fold = document.querySelector('.incidents').open })"
    )
    path.write_text(path.read_text("utf-8").replace("<p id=result>", f"<script>{settle}</script><p id=result>"), "utf-8")
    dom = browse(path)
    assert next(attrs for tag, attrs in dom.elements if tag == "html").get("data-fold") == "true"
