"use strict";
// The part of the run that is looked at, and its scale. Times are microseconds since the start of the run.
(function (timeline) {
  const SHORTEST = 500;
  timeline.OUTCOMES = ["ok", "fail", "info"];

  timeline.wholeView = (end) => ({ from: -end * 0.01 - 1000, to: end * 1.01 + 1000 });

  // The view that was asked for, moved and shortened so that it lies within the whole.
  timeline.clamped = function (asked, whole) {
    const span = Math.min(Math.max(asked.to - asked.from, SHORTEST), whole.to - whole.from),
      middle = (asked.from + asked.to) / 2;
    const from = Math.min(Math.max(middle - span / 2, whole.from), whole.to - span);
    return { from, to: from + span };
  };
  timeline.zoomed = (view, factor, around = (view.from + view.to) / 2) => ({
    from: around - (around - view.from) * factor,
    to: around + (view.to - around) * factor,
  });
  timeline.panned = (view, part) => ({
    from: view.from + part * (view.to - view.from),
    to: view.to + part * (view.to - view.from),
  });

  timeline.scale = function (view, left, right) {
    const perPixel = (view.to - view.from) / (right - left);
    return { left, right, x: (time) => left + (time - view.from) / perPixel, time: (px) => view.from + (px - left) * perPixel };
  };

  // Round times at least so many pixels apart, and the digits that tell them apart.
  timeline.ticks = function (view, width, apart = 110) {
    const rough = (view.to - view.from) / Math.max(2, width / apart) || 1,
      power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * (1 - 1e-9));
    const times = [];
    for (let n = Math.ceil(view.from / step); n * step <= view.to; n++) times.push(n * step);
    return { times, step, digits: Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step) + 1e-9))) };
  };

  timeline.seconds = (us) => (us / 1e6).toFixed(6).replace(/0{1,3}$/, "") + " s";
  timeline.duration = (us) => (us < 1e6 ? (us / 1e3).toFixed(1) + " ms" : timeline.seconds(us));

  timeline.bisect = function (values, wanted) {
    // first position whose value is >= wanted
    let low = 0,
      high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
})((globalThis.fencepostTimeline ??= {}));
