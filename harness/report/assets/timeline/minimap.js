"use strict";
// The whole run in a strip, with the part that is looked at. Drag it, or click beside it.
(function (timeline) {
  const HEIGHT = 34,
    NARROWEST = 60;

  timeline.minimap = function (canvas, data, palette, viewNow, look) {
    const ctx = canvas.getContext("2d"),
      { colour } = palette,
      whole = timeline.wholeView(data.end),
      rate = data.charts.find((chart) => chart.key === "rate");
    let scale = null,
      drag = null;

    function draw(left) {
      const width = canvas.parentElement.clientWidth,
        ratio = window.devicePixelRatio || 1;
      if (width < NARROWEST) return;
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      scale = timeline.scale(whole, left, width - 8);
      for (const fault of data.faults)
        box(
          scale.x(fault.start),
          0,
          Math.max(2, scale.x(fault.end) - scale.x(fault.start)),
          HEIGHT,
          fault.effective === false ? colour.bad : colour.fault,
          0.16,
        );
      if (rate) bars();
      for (const finding of data.findings)
        if (finding.forbidden && finding.time !== null) box(scale.x(finding.time) - 1, 0, 2, HEIGHT, colour.mark, 1);
      frame();
    }
    function box(left, top, width, height, fill, alpha) {
      ctx.globalAlpha = alpha;
      ctx.fillStyle = fill;
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 1;
    }
    function bars() {
      const sums = rate.moments.map((_, at) => rate.lines.reduce((sum, each) => sum + (each.values[at] || 0), 0)),
        most = Math.max(1, ...sums);
      rate.moments.forEach((time, at) => {
        const next = at + 1 < rate.moments.length ? rate.moments[at + 1] : data.end;
        let top = HEIGHT;
        for (const each of rate.lines) {
          const height = (each.values[at] / most) * (HEIGHT - 4);
          top -= height;
          box(
            scale.x(time),
            top,
            Math.max(1, scale.x(next) - scale.x(time)),
            height,
            colour[each.key],
            each.key === "ok" ? 0.55 : 1,
          );
        }
      });
    }
    function frame() {
      const view = viewNow(),
        from = scale.x(view.from),
        to = scale.x(view.to);
      box(scale.left, 0, Math.max(0, from - scale.left), HEIGHT, colour.soft, 0.7);
      box(to, 0, Math.max(0, scale.right - to), HEIGHT, colour.soft, 0.7);
      ctx.strokeStyle = colour.ink;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(Math.max(from, scale.left - 4) + 0.5, 1, Math.max(3, to - from - 1), HEIGHT - 2);
    }

    const timeAt = (event) => scale.time(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener("pointerdown", (event) => {
      if (!scale) return;
      canvas.setPointerCapture(event.pointerId);
      const time = timeAt(event),
        view = viewNow(),
        inside = time >= view.from && time <= view.to,
        span = view.to - view.from;
      drag = { by: inside ? time - view.from : span / 2, span };
      if (!inside) look({ from: time - drag.by, to: time - drag.by + span });
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) look({ from: timeAt(event) - drag.by, to: timeAt(event) - drag.by + drag.span });
    });
    for (const name of ["pointerup", "pointercancel"])
      canvas.addEventListener(name, () => {
        drag = null;
      });
    return { draw };
  };
})((globalThis.fencepostTimeline ??= {}));
