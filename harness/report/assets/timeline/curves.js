"use strict";
// Curves over the timeline's own time axis, drawn by uPlot: rate, latency, how far readers lag, open transactions.
(function (timeline) {
  const HEIGHT = 96,
    DASHES = { solid: [], dashed: [6, 3], dotted: [2, 3] },
    INKS = { ok: "ok", fail: "fail", info: "info", p50: "ok", p99: "fail", unseen: "shown", lag: "mark", open: "fault" };

  // `figure` holds `.plot[data-chart]` and `.reading` for each chart. `look` is asked to show a stretch that was dragged over.
  timeline.curves = function (data, palette, figure, look) {
    const { colour } = palette,
      charts = data.charts.map((chart) => made(chart, figure.querySelector('[data-chart="' + chart.key + '"]')));
    let left = 0;

    function made(chart, element) {
      const reading = element.parentElement.querySelector(".reading");
      return { chart, element, reading, plot: null };
    }
    function options(each, width, view) {
      const { chart } = each,
        stepped = chart.step ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
      return {
        width,
        height: HEIGHT,
        legend: { show: false },
        padding: [6, 8, 4, 0],
        cursor: {
          sync: { key: "fencepost" },
          points: { show: false },
          y: false,
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => look(timeline.wholeView(data.end)) },
        },
        scales: {
          x: { time: false, min: view.from, max: view.to, auto: false },
          y: { range: (_, low, high) => [0, Math.max(high || 0, 1e-9) * 1.08] },
        },
        series: [
          {},
          ...chart.lines.map((each) =>
            Object.assign(
              {
                label: each.key,
                scale: "y",
                width: 1.5,
                dash: DASHES[each.style],
                stroke: () => colour[INKS[each.key]],
                points: { show: !chart.step, size: 4, fill: () => colour[INKS[each.key]], filter: alone },
              },
              stepped,
            ),
          ),
        ],
        axes: [{ show: false }, axis(chart)],
        hooks: { drawClear: [bands], setCursor: [() => read(each)], setSelect: [selected] },
      };
    }
    function alone(plot, line) {
      // values without a neighbour, which no stroke shows
      const values = plot.data[line],
        missing = (at) => values[at] === null || values[at] === undefined;
      return values.map((_, at) => at).filter((at) => !missing(at) && missing(at - 1) && missing(at + 1));
    }
    function axis(chart) {
      return {
        size: () => left,
        gap: 4,
        stroke: () => colour.muted,
        font: "11px system-ui, sans-serif",
        space: 26,
        grid: { stroke: () => colour.line, width: 1 },
        ticks: { show: false },
        values: (_, splits) =>
          splits.map(
            (value) =>
              value.toLocaleString("en", { maximumFractionDigits: 3 }) + (left > 60 && chart.unit ? " " + chart.unit : ""),
          ),
      };
    }
    function bands(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const fault of data.faults)
        band(plot, fault.start, fault.end, fault.effective === false ? colour.bad : colour.fault, 0.13);
      for (const [from, to] of data.gap && data.gap[1] - data.gap[0] > 500000 ? [data.gap] : []) underline(plot, from, to);
      ctx.restore();
    }
    function band(plot, from, to, ink, alpha) {
      const { ctx, bbox } = plot,
        start = plot.valToPos(from, "x", true),
        end = plot.valToPos(to, "x", true);
      ctx.globalAlpha = alpha;
      ctx.fillStyle = ink;
      ctx.fillRect(start, bbox.top, Math.max(2, end - start), bbox.height);
      ctx.globalAlpha = 1;
    }
    function underline(plot, from, to) {
      // the longest time without a success
      if (plot !== (charts[0] || {}).plot) return;
      const { ctx, bbox } = plot,
        ratio = window.devicePixelRatio || 1,
        start = plot.valToPos(from, "x", true),
        end = plot.valToPos(to, "x", true);
      const words = ((to - from) / 1e6).toFixed(1) + " s without a success";
      ctx.fillStyle = colour.bad;
      ctx.fillRect(start, bbox.top, end - start, 2 * ratio);
      ctx.font = 11 * ratio + "px system-ui, sans-serif";
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      const left = Math.max(start, bbox.left),
        right = Math.min(end, bbox.left + bbox.width);
      if (ctx.measureText(words).width < right - left) ctx.fillText(words, left + 4 * ratio, bbox.top + 5 * ratio);
    }
    function selected(plot) {
      if (plot.select.width < 4) return;
      const from = plot.posToVal(plot.select.left, "x"),
        to = plot.posToVal(plot.select.left + plot.select.width, "x");
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      look({ from, to });
    }
    function read({ chart, reading, plot }) {
      const at = plot ? plot.cursor.idx : null,
        unit = chart.unit ? " " + chart.unit : "";
      const value = (number) => (number === null ? "–" : number.toLocaleString("en") + unit);
      const values = at === null || at === undefined ? [] : chart.lines.map((each) => each.key + " " + value(each.values[at]));
      const none = !values.length || plot.cursor.left < 0;
      reading.textContent = none ? "" : "at " + (chart.moments[at] / 1e6).toFixed(1) + " s: " + values.join(", ");
    }

    return {
      draw(view, gutter, width) {
        left = gutter;
        for (const each of charts) {
          if (!each.plot)
            each.plot = new uPlot(
              options(each, width, view),
              [each.chart.moments, ...each.chart.lines.map((line) => line.values)],
              each.element,
            );
          if (each.plot.width !== width) each.plot.setSize({ width, height: HEIGHT });
          each.plot.setScale("x", { min: view.from, max: view.to });
        }
      },
      repaint() {
        for (const each of charts) if (each.plot) each.plot.redraw(false, true);
      },
    };
  };
})((globalThis.fencepostTimeline ??= {}));
