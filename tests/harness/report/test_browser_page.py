"""The page as a whole in a real browser: copying, links to its parts, folds, widths, paper, and readers who see or move less."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import report_example as example
from support.browser import assert_sound

pytestmark = pytest.mark.browser

AXE = (Path(__file__).parents[2] / "support" / "data" / "axe" / "axe.min.js").read_text("utf-8")
SETTLED = "await new Promise((done) => setTimeout(done, 50));"
COPIED = """
  const taken = [];
  document.addEventListener("copy", () => taken.push(String(window.getSelection())));
"""


def played(*steps: str) -> str:
    """An expression that performs steps and gives what they push to `seen`."""
    return f"(async () => {{ const seen = []; {' '.join(steps)} return seen; }})()"


# ----------------------------------------------------------------------------------------- copying
def test_the_command_is_copied_from_a_file_and_the_page_says_so(browse, report_of):
    """Under the page's own policy; where the clipboard's interface is refused, by the selection."""
    refused = "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'));"
    press = 'const button = document.querySelector("[data-copy]"); button.click();'
    tell = 'seen.push(button.textContent, document.getElementById("announcements").textContent, ...taken);'
    dom = browse(report_of("torn"), play=played(COPIED, refused, press, SETTLED, tell))
    assert_sound(dom)
    assert dom.answer == ["Copied", "Copied", "fencepost campaign campaigns/first.toml --only steady --seed 7"]


def test_where_nothing_may_be_copied_the_command_is_selected(browse, report_of):
    refused = "navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); document.execCommand = () => false;"
    press = 'const button = document.querySelector("[data-copy]"); button.click();'
    tell = 'seen.push(button.textContent, document.getElementById("announcements").textContent, String(getSelection()));'
    dom = browse(report_of("torn"), play=played(refused, press, SETTLED, tell))
    assert dom.answer[:2] == ["Press Ctrl+C", "Selected: press Ctrl+C to copy"]
    assert dom.answer[2].strip() == "fencepost campaign campaigns/first.toml --only steady --seed 7"


def test_a_button_that_copied_has_its_name_again(browse, report_of):
    """However often it was pressed."""
    clock = "const waiting = []; window.setTimeout = (call, ms) => { ms >= 1000 ? waiting.push(call) : call(); };"
    press = 'const button = document.querySelector("[data-copy]"); button.click(); await 0; await 0; button.click();'
    wait = "for (let turn = 0; turn < 20; turn += 1) await 0; waiting.forEach((call) => call()); seen.push(button.textContent);"
    fake = "navigator.clipboard.writeText = () => Promise.resolve();"
    assert browse(report_of("torn"), play=played(fake, clock, press, wait)).answer == ["Copy"]


# ----------------------------------------------------------------------------------------- anchors
@pytest.mark.parametrize("part", ["fault-1", "property-torn-transaction"])
def test_a_part_of_the_page_has_a_link_that_is_copied(browse, report_of, part):
    """It is there for the keyboard too, and invisible until then."""
    refused = "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'));"
    find = f'const link = document.querySelector("#{part} .anchor");'
    press = 'seen.push(link.getAttribute("aria-label")); link.focus(); seen.push(document.activeElement === link); link.click();'
    tell = 'seen.push(document.getElementById("announcements").textContent, location.hash, ...taken);'
    report = report_of("torn")
    dom = browse(report, play=played(COPIED, refused, find, press, SETTLED, tell))
    assert_sound(dom)
    name, focused, announced, fragment, copied = dom.answer
    assert name == f"Copy the link to {part.replace('-', ' ')}"
    assert (focused, announced, fragment) == (True, "Link copied", f"#{part}")
    assert copied.strip() == f"{report.as_uri()}#{part}"


@pytest.mark.parametrize("fragment", ["#property-poll-skip", "#from=1&to=2&at=property-poll-skip", "#property%2Dpoll%2Dskip"])
def test_a_link_to_a_folded_part_opens_its_folds(browse, report_of, fragment):
    """Whatever else the address says."""
    look = 'const part = document.getElementById("property-poll-skip"); seen.push(part.closest("details").open, scrollY > 0);'
    still = {"prefers-reduced-motion": "reduce"}
    assert browse(report_of("valid"), still, play=played(look), fragment=fragment).answer == [True, True]


@pytest.mark.parametrize("fragment", ["", "#", "#no-such-part", "#%", "#property-poll-skip-not", "#from=1", "#at=%"])
def test_an_address_that_leads_nowhere_opens_nothing(browse, report_of, fragment):
    look = 'for (const fold of document.querySelectorAll("details[open]")) seen.push(fold.className);'
    dom = browse(report_of("valid"), play=played(look), fragment=fragment)
    assert_sound(dom)
    assert dom.answer == []


# ------------------------------------------------------------------------------------------- paper
def test_on_paper_weaknesses_and_findings_are_open_and_closed_again_after(browse, tmp_path, report_of):
    count = 'const open = () => document.querySelectorAll("#findings .folded[open], .weakened details[open]").length;'
    steps = 'seen.push(open()); dispatchEvent(new Event("beforeprint")); seen.push(open() > 0);'
    close = 'dispatchEvent(new Event("afterprint")); seen.push(open());'
    for name in ("large", "empty"):
        assert browse(report_of(name), play=played(count, steps, close)).answer == [0, True, 0]


def test_legends_and_states_need_no_background_on_paper(browse, report_of):
    """Printers leave backgrounds out."""
    look = """
      for (const key of document.querySelectorAll(".legend .key, .state, .badge, .role, .outcome")) {
        const style = getComputedStyle(key);
        seen.push(parseFloat(style.borderTopWidth) + parseFloat(style.borderLeftWidth) > 0);
      }
    """
    answer = browse(report_of("torn"), {"media": "print"}, play=played(look)).answer
    assert len(answer) > 20
    assert all(answer)


# ------------------------------------------------------------------------------------------ readers
UNFOLDED = 'for (const fold of document.querySelectorAll("details")) fold.open = true;'
WIDER = """
  const root = document.documentElement, framed = ".scroll, .cycle, nav, #chart, .visually-hidden";
  const wide = (part) => !part.closest(framed) && part.getBoundingClientRect().right > root.clientWidth + 1;
  const parts = [...document.body.querySelectorAll("*")].filter(wide);
  seen.push([root.scrollWidth - root.clientWidth, ...parts.slice(0, 5).map((part) => part.outerHTML.slice(0, 200))]);
"""
ANCHORED = """
  const anchored = [...document.querySelectorAll(".anchored")];
  const linked = (part) => [...part.querySelectorAll(".anchor")].filter((link) => link.closest(".anchored") === part).length;
  const ids = new Set(anchored.map((part) => part.id));
  seen.push([anchored.length - ids.size, anchored.filter((part) => linked(part) !== 1).length]);
"""
JUDGED = """
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  seen.push(violations.map((rule) => [rule.id, ...rule.nodes.slice(0, 5).map((node) => node.html)]));
"""


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name == "large" else ()) for name in sorted(example.RUNS)]
)
def test_a_page_fits_its_window_and_keeps_nobody_out(browse, report_of, name, width, scheme):
    """On a telephone and on a desk, with everything unfolded; what is wider scrolls in a frame of its own. axe has no finding.

    Every part that can be linked to has one link, and an id of its own.
    """
    play = f"{AXE};{played(UNFOLDED, WIDER, ANCHORED, JUDGED)}"
    assert browse(report_of(name), {"prefers-color-scheme": scheme}, width=width, play=play).answer == [[0], [0, 0], []]


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_the_other_colours_and_widths_are_as_good(browse, report_of, width, scheme):
    play = f"{AXE};{played(UNFOLDED, WIDER, JUDGED)}"
    assert browse(report_of("torn"), {"prefers-color-scheme": scheme}, width=width, play=play).answer == [[0], []]


def test_who_wants_less_motion_gets_none(browse, report_of):
    look = "seen.push(getComputedStyle(document.documentElement).scrollBehavior);"
    assert browse(report_of("torn"), {"prefers-reduced-motion": "reduce"}, play=played(look)).answer == ["auto"]
    assert browse(report_of("torn"), {"prefers-reduced-motion": "no-preference"}, play=played(look)).answer == ["smooth"]


def test_every_control_can_be_reached_by_keyboard(browse, report_of):
    """Nothing that can be clicked is out of the order of the Tab key, and focus is seen."""
    look = """
      for (const part of document.querySelectorAll("a, button, summary, [data-copy], [role=button], canvas[tabindex]")) {
        if (!part.checkVisibility()) continue;
        part.focus({ preventScroll: true, focusVisible: true });
        const style = getComputedStyle(part);
        const good = document.activeElement === part && part.tabIndex >= 0 && style.outlineStyle !== "none";
        if (!good) seen.push(part.outerHTML.slice(0, 120));
      }
    """
    assert browse(report_of("torn"), play=played(look)).answer == []
