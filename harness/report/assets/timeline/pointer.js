"use strict";
// The pointer on the chart: drag, wheel, click, and the tip over what lies under it.
(function (timeline) {
  timeline.pointer = function (page, moves) {
    const { data, index, state, canvas, tip, painter } = page;
    const point = (event) => {
      const at = canvas.getBoundingClientRect();
      return [event.clientX - at.left, event.clientY - at.top];
    };
    let drag = null;
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!painter.place) return;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          event.preventDefault();
          return moves.look(timeline.panned(state.view, event.deltaX / 800));
        }
        // Without Ctrl or the focus the page is scrolled past the chart.
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        moves.look(timeline.zoomed(state.view, Math.pow(1.0018, event.deltaY), painter.timeAt(point(event)[0])));
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { at: event.clientX, ...state.view, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!painter.place) return;
      if (drag) {
        drag.moved = drag.moved || Math.abs(event.clientX - drag.at) > 3;
        const shift = ((event.clientX - drag.at) / (painter.place.right - painter.place.left)) * (drag.to - drag.from);
        return drag.moved && moves.look({ from: drag.from - shift, to: drag.to - shift });
      }
      hover(...point(event));
    });
    function hover(px, py) {
      const under = painter.hit(px, py);
      canvas.style.cursor = under ? "pointer" : "grab";
      tip.hidden = !under;
      if (!under) return;
      tip.textContent = words(under);
      tip.style.left = Math.max(4, Math.min(px + 14, painter.place.width - tip.offsetWidth - 6)) + "px";
      tip.style.top =
        (py + 18 + tip.offsetHeight > painter.place.height ? Math.max(4, py - tip.offsetHeight - 12) : py + 18) + "px";
    }
    function words(under) {
      if (under.op !== undefined) return timeline.operationText(data, index.guilty, under.op);
      if (under.finding) return timeline.findingText(under.finding);
      if (under.broker) return timeline.brokerText(data, under.broker, under.time, under.slack);
      return under.row ? timeline.rowText(under.row) : timeline.faultText(under.fault);
    }
    canvas.addEventListener("pointerup", (event) => {
      const moved = !drag || drag.moved;
      drag = null;
      if (moved) return;
      const under = painter.hit(...point(event)) || {};
      if (under.finding) return moves.showFinding(under.finding);
      if (under.fault) return moves.showFault(under.fault);
      moves.pin(under.op === undefined ? -1 : under.op);
    });
    canvas.addEventListener("pointercancel", () => {
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
  };
})((globalThis.fencepostTimeline ??= {}));
