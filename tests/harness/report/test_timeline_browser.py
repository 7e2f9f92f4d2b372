"""The timeline in a real browser: keys, filter, address, records' lives, and pages that are hidden, narrow, dark or printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.browser import Dom, acted, assert_sound

pytestmark = pytest.mark.browser

TOOLS = """
  const by = (id) => document.getElementById(id), canvas = by("canvas"), seen = [];
  const key = (name, more = {}) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true, ...more }));
  const wait = (ms = 0) => new Promise((done) => setTimeout(done, ms));
  const followed = (hash) => new Promise((done) => {
    addEventListener("hashchange", done, { once: true });
    location.hash = hash;
  });
  const operation = () => Number((/operation (\\d+)/.exec(by("pinned").textContent) || [null, NaN])[1]);
  const typed = async (text) => {
    by("filter").value = text;
    by("filter").dispatchEvent(new Event("input"));
    await wait(250);
  };
  const findings = [...document.querySelectorAll("[id^=finding-]")].filter((each) => /^finding-\\d+$/.test(each.id));
  const cards = () => findings.filter((each) => !each.closest("article").hidden).map((each) => each.id);
  const data = fencepostTimeline.read(JSON.parse(by("timeline-data").textContent));
"""


@pytest.fixture
def play(browse, report_of) -> Callable[..., Any]:
    """Open the report of an example, run a script in it, and give back what it pushed to `seen`."""

    def played(name: str, script: str, **how: Any) -> Any:
        ending = "document.documentElement.dataset.result = JSON.stringify(seen);"
        path = acted(report_of(name), f"window.playing = (async () => {{ {TOOLS} {script}; {ending} }})();")
        dom: Dom = browse(path, **how)
        assert_sound(dom)
        return json.loads(next(attrs for tag, attrs in dom.elements if tag == "html")["data-result"] or "null")

    return played


# -------------------------------------------------------------------------------------------- keys
def test_arrows_go_from_operation_to_operation_and_from_lane_to_lane(play):
    seen = play(
        "torn",
        """
        const row = () => data.ops.row[data.ops.index.indexOf(operation())];
        canvas.focus();
        key("ArrowRight");
        seen.push(operation() >= 0, by("pinned").hidden);
        const first = operation(), r = row();
        key("ArrowRight");
        seen.push(operation() > first, row() === r);
        key("ArrowLeft");
        seen.push(operation() === first);
        key("ArrowDown");
        seen.push(row() === r + 1);
        key("ArrowUp");
        seen.push(row() === r);
        key("Home");
        const edge = operation();
        key("ArrowLeft");
        seen.push(operation() === edge);
        key("End");
        seen.push(operation() > edge);
        key("Escape");
        seen.push(by("pinned").hidden, by("selection").textContent);
        """,
    )
    assert seen == [True, False, True, True, True, True, True, True, True, True, ""]


def test_screen_readers_are_told_what_is_selected(play):
    seen = play(
        "torn",
        """
        seen.push(by("selection").getAttribute("role"), canvas.getAttribute("role"), canvas.tabIndex);
        key("n");
        seen.push(by("selection").textContent);
        key("f");
        seen.push(by("selection").textContent);
        """,
    )
    assert seen[:3] == ["status", "application", 0]
    assert seen[3].startswith("txn (commit): ok; c")
    assert "part of finding 1" in seen[3]
    assert re.match(r"cut-clients 12 nodes → n1; from 2\.99\d+ s to 5\.39\d+ s", seen[4])


def test_keys_go_from_finding_to_finding_and_from_fault_to_fault_in_a_ring(play):
    seen = play(
        "torn",
        """
        for (const name of ["n", "n", "n", "n", "p"]) { key(name); seen.push(/finding (\\d)/.exec(by("pinned").textContent)[1]); }
        for (const name of ["f", "f", "f", "f", "F"]) {
          key(name, { shiftKey: name === "F" });
          seen.push(by("pinned").textContent.split("\\n")[0] + " " + by("pinned").querySelector("a").hash);
        }
        """,
    )
    assert seen[:5] == ["1", "2", "3", "1", "3"]
    cut = "cut-clients 12 nodes → n1"
    assert seen[5:] == [f"{cut} #fault-0", f"{cut} #fault-1", "pause n2 #fault-2", f"{cut} #fault-0", "pause n2 #fault-2"]


def test_what_keys_do_not_mean_is_left_to_the_browser(play):
    seen = play(
        "torn",
        """
        seen.push(key("Tab"), key("n", { ctrlKey: true }), key("constructor"), key("n"));
        """,
    )
    assert seen == [True, True, True, False]


def test_every_key_is_in_the_help_and_the_focus_is_visible(play):
    seen = play(
        "torn",
        """
        seen.push([...document.querySelectorAll(".keys kbd")].map((each) => each.textContent).join(" "));
        canvas.focus();
        key("ArrowRight");
        canvas.blur();
        canvas.focus({ focusVisible: true });
        seen.push(getComputedStyle(canvas).outlineStyle, parseFloat(getComputedStyle(canvas).outlineWidth) >= 2);
        """,
    )
    assert seen[0] == "← → Home End ↑ ↓ n p f F Enter + \N{MINUS SIGN} 0 Shift ← → / Esc"
    assert seen[1:] == ["solid", True]


# ------------------------------------------------------------------------------------------ filter
def test_the_filter_leaves_operations_cards_and_faults_and_counts_them(play):
    seen = play(
        "torn",
        """
        seen.push(cards());
        await typed("finding:2");
        seen.push(cards(), by("filter-result").textContent, by("filtered-findings").textContent.trim());
        await typed("fault:pause clas:x");
        seen.push(cards(), by("filter-result").textContent);
        by("filtered-findings").querySelector("button").click();
        seen.push(cards(), by("filter").value, by("filter-result").textContent, by("filtered-findings").hidden);
        """,
    )
    every = ["finding-1", "finding-2", "finding-3"]
    assert seen[0] == every
    assert seen[1] == ["finding-2"]
    assert seen[2].startswith("2 of ")
    assert seen[2].endswith(" operations, 1 of 3 findings, 3 of 3 faults.")
    assert seen[3].startswith("2 cards are hidden by the timeline's filter.")
    assert seen[4] == []
    assert "0 of 3 findings, 1 of 3 faults. Not understood: clas:x. Known are class: " in seen[5]
    assert seen[6:] == [every, "", "", True]


def test_keys_go_only_to_what_the_filter_leaves(play):
    seen = play(
        "torn",
        """
        await typed("finding:2");
        key("n"); key("n");
        seen.push(/finding (\\d)/.exec(by("pinned").textContent)[1]);
        await typed("fault:pause");
        key("f"); key("f");
        seen.push(by("pinned").textContent.split("\\n")[0]);
        await typed("fail");
        key("Escape"); key("ArrowRight");
        seen.push(by("pinned").textContent.split("\\n")[0]);
        """,
    )
    assert seen[:2] == ["2", "pause n2"]
    assert seen[2].endswith(": fail")


def test_the_box_offers_words(play):
    seen = play(
        "torn",
        """
        by("filter").value = "info class:t";
        by("filter").dispatchEvent(new Event("input"));
        seen.push(...[...by("filter-words").children].map((option) => option.value));
        """,
    )
    assert seen == ["info class:torn-transaction"]


def test_a_hostile_filter_is_only_text(play):
    seen = play(
        "hostile",
        """
        await typed('class:"<' + '/script><img src=x onerror=1>" (((');
        seen.push(document.images.length, by("filter-result").textContent.includes("((("));
        """,
    )
    assert seen == [0, True]


# ----------------------------------------------------------------------------------------- address
def test_filter_zoom_and_selection_come_back_from_the_address(play):
    fragment = "#filter=class:torn-transaction+process:1*&from=8.5&to=10.5&op={op}"
    (op,) = play("torn", "seen.push(data.findings[0].operations[0])")
    seen = play(
        "torn",
        """
        seen.push(by("filter").value, operation(), location.hash);
        key("Escape");
        by("whole").click();
        await typed("");
        await wait(400);
        seen.push(location.hash);
        """,
        fragment=fragment.format(op=op),
    )
    assert seen == ["class:torn-transaction process:1*", op, fragment.format(op=op), ""]


def test_the_address_follows_what_is_done(play):
    seen = play(
        "torn",
        """
        key("n");
        await typed("info");
        await wait(400);
        const state = fencepostTimeline.decoded(location.hash);
        seen.push(state.filter, state.op === operation(), state.view.from < state.view.to);
        """,
    )
    assert seen == ["info", True, True]


def test_an_address_that_changes_is_followed(play):
    seen = play(
        "torn",
        """
        const op = data.findings[1].operations[0];
        await followed("#filter=fail&op=" + op);
        seen.push(by("filter").value, operation() === op);
        await followed("#filter=");
        seen.push(by("filter").value, by("pinned").hidden);
        await followed("#op=999999999");
        seen.push(by("selection").textContent);
        """,
    )
    assert seen == ["fail", True, "", True, "Operation 999999999 is not on this page."]


def test_plain_anchors_live_beside_the_state(play):
    """A link to a card does not take the filter away, and a later state keeps the card."""
    seen = play(
        "torn",
        """
        await typed("finding:2,3");
        await followed("#finding-3");
        seen.push(by("filter").value, location.hash, document.querySelector(":target").id);
        key("n");
        await wait(400);
        seen.push(fencepostTimeline.decoded(location.hash).anchor);
        """,
    )
    assert seen == ["finding:2,3", "#finding-3", "finding-3", "finding-3"]


def test_a_link_is_not_saved_over_before_its_event_has_come(play):
    """A browser changes the address at once and says so later; what was to be saved by then is not."""
    seen = play(
        "torn",
        """
        const later = window.setTimeout;
        let save = null;
        window.setTimeout = (call) => { save = call; };
        key("n");
        window.setTimeout = later;
        const event = followed("#finding-3");
        save();
        seen.push(location.hash);
        await event;
        seen.push(location.hash);
        key("n");
        await wait(400);
        seen.push(fencepostTimeline.decoded(location.hash).anchor);
        """,
    )
    assert seen == ["#finding-3", "#finding-3", "finding-3"]


def test_an_anchor_in_a_state_opens_its_folds(play):
    seen = play("large", 'seen.push(by("finding-60").closest("details").open)', fragment="#filter=&at=finding-60")
    assert seen == [True]


# ------------------------------------------------------------------------------------------- lives
def test_a_send_of_a_finding_shows_the_life_of_its_record(play):
    """By a click on it, or Enter; of the whole history, and marked in the chart."""
    seen = play(
        "torn",
        """
        key("n");
        key("Enter");
        const steps = () => [...by("pinned").querySelectorAll(".life li")].map((item) => item.className);
        seen.push(steps(), by("pinned").querySelector(".hint").textContent);
        [...by("pinned").querySelectorAll(".records-of button")][2].click();
        seen.push(steps());
        key("Escape");
        seen.push(by("pinned").hidden);
        """,
    )
    assert seen[0] == ["sent", "acknowledged", "decided", "read"]
    assert seen[1] == "Computed from the whole history."
    assert seen[2][:3] == ["sent", "acknowledged", "decided"]
    assert "final" in seen[2]
    assert seen[3] is True


def test_the_focus_stays_where_a_button_was_pressed(play):
    """The panel's buttons are replaced by what they show."""
    seen = play(
        "torn",
        """
        key("n");
        const button = by("pinned").querySelector(".records-of button");
        button.focus();
        button.click();
        seen.push(document.activeElement.id, by("pinned").querySelector(".life") !== null);
        """,
    )
    assert seen == ["pinned", True]


def test_a_record_of_a_card_shows_its_life_too(play):
    seen = play(
        "torn",
        """
        const buttons = by("finding-2").closest("article").querySelectorAll(".lives button");
        seen.push(buttons.length);
        buttons[0].click();
        seen.push(by("pinned").querySelector("h3").textContent.startsWith("The life of process"), document.activeElement.id);
        """,
    )
    assert seen == [4, True, "canvas"]


def test_any_record_of_the_page_can_be_followed(play):
    """Of an operation without finding: what this page has of it, and that this is all there is."""
    seen = play(
        "valid",
        """
        const writes = (at) => data.rows[data.ops.row[at]].role === "writer" && data.ops.outcome[at] === 0;
        const i = data.ops.index.findIndex((_, at) => data.ops.count[at] > 0 && writes(at));
        await followed("#op=" + data.ops.index[i]);
        by("pinned").querySelector(".records-of button").click();
        seen.push([...by("pinned").querySelectorAll(".life li")].map((item) => item.className));
        seen.push(by("pinned").querySelector(".hint").textContent);
        by("pinned").querySelector(".life li:last-child button").click();
        seen.push(by("pinned").querySelector(".what").textContent.startsWith("poll"));
        """,
    )
    assert seen[0][:2] == ["sent", "decided"]
    assert "read" in seen[0]
    assert seen[1].startswith("To the operation")
    assert seen[2] is True


# -------------------------------------------------------------------------- hidden, narrow, printed
def test_a_hidden_page_is_no_error_and_is_drawn_when_it_is_shown(browse, report_of):
    """A frame without room, and a part of the page that is not displayed: no banner over a correct report."""
    report = report_of("torn")
    outer = report.with_name("outer.html")
    script = """
      const frame = document.querySelector("iframe"), inner = () => frame.contentDocument;
      const wait = (ms) => new Promise((done) => setTimeout(done, ms));
      const pixels = (c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
      const painted = () => { const c = inner().getElementById("canvas"); return c.width > 300 && pixels(c).some(Boolean); };
      window.playing = (async () => {
        await new Promise((done) => { frame.onload = done; frame.srcdoc = document.getElementById("report").textContent; });
        await wait(100);
        const seen = [inner().getElementById("script-errors").hidden, painted()];
        frame.style.display = "block";
        for (let n = 0; n < 1200 && !painted(); n++) await wait(50);
        seen.push(inner().getElementById("script-errors").hidden, painted(), inner().querySelectorAll(".uplot").length);
        document.documentElement.dataset.result = JSON.stringify(seen);
      })();
    """
    text = json.dumps(report.read_text("utf-8")).replace("</", "<\\/")
    outer.write_text(
        f'<!doctype html><iframe style="display:none;width:900px;height:600px"></iframe><p id="report" hidden></p>'
        f'<script>document.getElementById("report").textContent = {text};{script}</script>',
        "utf-8",
    )
    dom = browse(outer)
    result = json.loads(next(attrs for tag, attrs in dom.elements if tag == "html")["data-result"] or "null")
    assert result == [True, False, True, True, 3]


def test_a_part_of_the_page_that_is_not_displayed_is_drawn_later(play):
    seen = play(
        "torn",
        """
        const section = by("timeline");
        section.style.display = "none";
        window.dispatchEvent(new Event("resize"));
        key("n"); key("+");
        await wait(100);
        canvas.width = 1;
        section.style.display = "";
        for (let n = 0; n < 1200 && canvas.width < 300; n++) await wait(50);
        seen.push(canvas.width > 300);
        """,
    )
    assert seen == [True]


@pytest.mark.parametrize("width", [200, 40, 390])
def test_a_narrow_page_is_drawn_as_far_as_it_has_room(play, width):
    seen = play(
        "torn",
        """
        for (const name of ["n", "+", "+", "ArrowRight", "f"]) key(name);
        await wait(50);
        seen.push(by("script-errors").hidden, by("minimap").getBoundingClientRect().width <= innerWidth);
        """,
        width=width,
    )
    assert seen == [True, True]


@pytest.mark.parametrize("name", ["valid", "torn", "large"])
def test_nothing_of_the_timeline_is_wider_than_a_phone(play, name):
    seen = play(name, 'await wait(50); seen.push(by("timeline").scrollWidth <= innerWidth)', width=390)
    assert seen == [True]


def test_the_legend_is_printed_without_backgrounds(play):
    """Keys are borders, lines have styles of their own, and each has its words; the chart fits the paper."""
    seen = play(
        "valid",
        """
        for (const each of document.querySelectorAll(".legend .key, .curve .stroke")) {
          const style = getComputedStyle(each), sides = ["Top", "Bottom", "Left", "Right"].map((side) => "border" + side);
          const bordered = sides.some((side) => parseFloat(style[side + "Width"]) >= 1 && style[side + "Style"] !== "none");
          seen.push(bordered && each.parentElement.textContent.trim() !== "");
        }
        window.dispatchEvent(new Event("beforeprint"));
        await Promise.resolve(); // uPlot draws in a microtask
        seen.push(by("figure").clientWidth <= 720, document.querySelector(".uplot").clientWidth <= 720);
        window.dispatchEvent(new Event("afterprint"));
        for (let n = 0; n < 1200 && document.querySelector(".uplot").clientWidth <= 720; n++) await wait(50);
        seen.push(document.querySelector(".uplot").clientWidth > 720);
        """,
    )
    assert len(seen) > 10
    assert [at for at, each in enumerate(seen) if not each] == []


def test_a_dark_page_has_other_colours_in_its_curves_and_its_chart(play):
    script = """
      const pixels = (c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
      const sum = (c) => pixels(c).reduce((sum, value, at) => (at % 4 === 3 ? sum : (sum * 31 + value) % 1000003), 0);
      seen.push(sum(canvas), sum(document.querySelector(".uplot canvas")), sum(by("minimap")));
    """
    light, dark = play("valid", script), play("valid", script, media={"prefers-color-scheme": "dark"})
    assert all(a != b for a, b in zip(light, dark, strict=True))


# ------------------------------------------------------------------------------------- pointer, strip
def test_a_stretch_of_a_curve_that_is_dragged_over_is_shown_everywhere(play):
    seen = play(
        "valid",
        """
        const over = document.querySelector('[data-chart="rate"] .u-over'), at = over.getBoundingClientRect();
        const point = (x) => ({ clientX: at.left + x, clientY: at.top + 20, movementX: 1, bubbles: true, button: 0 });
        const mouse = (type, x) => over.dispatchEvent(new MouseEvent(type, point(x)));
        for (const [type, x] of [["mouseenter", 100], ["mousemove", 100], ["mousedown", 100], ["mousemove", 200]]) mouse(type, x);
        await wait(50);
        mouse("mouseup", 200);
        await wait(400);
        const { view } = fencepostTimeline.decoded(location.hash), whole = fencepostTimeline.wholeView(data.end);
        const perPixel = (whole.to - whole.from) / at.width;
        const about = (time) => Math.abs(time - 100 * perPixel) < 3 * perPixel;
        seen.push(about(view.from - whole.from), about(view.to - view.from));
        """,
    )
    assert seen == [True, True]


def test_the_strip_moves_the_view(play):
    seen = play(
        "valid",
        """
        const strip = by("minimap"), at = strip.getBoundingClientRect();
        strip.setPointerCapture = () => {};
        for (let n = 0; n < 4; n++) by("zoom-in").click();
        await wait(50);
        strip.dispatchEvent(new PointerEvent("pointerdown", { clientX: at.right - 60, clientY: at.top + 5, pointerId: 1 }));
        strip.dispatchEvent(new PointerEvent("pointermove", { clientX: at.right - 100, clientY: at.top + 5, pointerId: 1 }));
        strip.dispatchEvent(new PointerEvent("pointerup", { pointerId: 1 }));
        await wait(400);
        seen.push(fencepostTimeline.decoded(location.hash).view.from > data.end * 0.7);
        """,
    )
    assert seen == [True]


def test_the_library_of_the_curves_is_named_with_its_licence(report_of):
    text = Path(report_of("valid")).read_text("utf-8")
    assert "uPlot 1.6.32, © 2022 Leon Sorokin, MIT licence" in text
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert "The above copyright notice and this permission notice shall be included" in text
