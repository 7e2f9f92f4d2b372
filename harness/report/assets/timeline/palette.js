"use strict";
// The page's colours, for what is drawn: read anew when the scheme changes or the page is printed.
(function (timeline) {
  const NAMES = ["ok", "fail", "info", "ink", "muted", "line", "soft", "sheet", "fault", "bad", "mark", "shown", "link"];

  timeline.palette = function () {
    const colour = {},
      hatch = {};
    function tile(ink, draw) {
      const small = document.createElement("canvas");
      small.width = small.height = 4;
      const c = small.getContext("2d");
      c.strokeStyle = ink;
      c.lineWidth = 1.4;
      c.beginPath();
      draw(c);
      c.stroke();
      return c.createPattern(small, "repeat");
    }
    function refresh() {
      const style = getComputedStyle(document.documentElement);
      for (const name of NAMES) colour[name] = style.getPropertyValue("--" + name).trim();
      hatch.fail = tile(colour.fail, (c) => {
        c.moveTo(-1, 5);
        c.lineTo(5, -1);
      });
      hatch.info = tile(colour.info, (c) => {
        c.moveTo(1, 1.5);
        c.lineTo(2.5, 1.5);
      });
    }
    refresh();
    return { colour, hatch, refresh };
  };
})((globalThis.fencepostTimeline ??= {}));
