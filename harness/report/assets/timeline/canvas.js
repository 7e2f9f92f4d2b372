"use strict";
// The chart: a time axis, faults, brokers, findings and lanes of operations, on one canvas.
(function (timeline) {
  const AXIS = 20,
    LANE = 17,
    BROKER = 18,
    MARKS = 18,
    PAD = 5,
    NARROWEST = 60;
  const { OUTCOMES } = timeline;

  // Where things lie at a width; null where there is no room to draw.
  timeline.layout = function (data, width, findings) {
    if (width < NARROWEST) return null;
    const row = data.rows.length <= 30 ? 17 : data.rows.length <= 90 ? 12 : 7,
      lanes = data.faults.reduce((most, fault) => Math.max(most, fault.lane + 1), 0);
    const left = width < 560 ? Math.min(52, Math.floor(width / 4)) : 116;
    const faults = AXIS + PAD,
      brokers = faults + lanes * LANE + (lanes ? PAD : 0),
      marks = brokers + data.brokers.length * BROKER + (data.brokers.length ? PAD : 0);
    const body = marks + (findings ? MARKS : 0),
      bottom = body + data.rows.length * row;
    return { width, height: bottom + PAD, left, right: width - 8, row, lanes, faults, brokers, marks, body, bottom };
  };

  timeline.painter = function (canvas, data, index, palette) {
    const ctx = canvas.getContext("2d"),
      { ops } = data,
      { colour } = palette;
    let place = null,
      scale = null,
      state = null;
    const x = (time) => scale.x(time);

    // False where there is no room: the page is hidden, or very narrow.
    function measure(shown) {
      const width = canvas.parentElement.clientWidth,
        ratio = window.devicePixelRatio || 1;
      place = timeline.layout(data, width, index.marked.length || shown.asked);
      if (!place) return false;
      const size = [Math.round(width * ratio), Math.round(place.height * ratio)];
      if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
      canvas.style.height = place.height + "px";
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      state = shown;
      scale = timeline.scale(shown.view, place.left, place.right);
      return true;
    }
    function draw(shown) {
      if (!measure(shown)) return false;
      ctx.clearRect(0, 0, place.width, place.height);
      ctx.font = "11px " + getComputedStyle(document.body).fontFamily;
      ctx.textBaseline = "middle";
      axis();
      for (const part of [windows, bands, brokers, operations, marks, life]) clipped(part);
      labels();
      return true;
    }

    // ---------------------------------------------------------------------------------- strokes
    function clipped(part) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(place.left, 0, place.right - place.left, place.height);
      ctx.clip();
      part();
      ctx.restore();
    }
    function box(left, top, width, height, fill, alpha = 1) {
      ctx.globalAlpha = alpha;
      ctx.fillStyle = fill;
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 1;
    }
    function text(words, left, top, ink, align = "left") {
      ctx.fillStyle = ink;
      ctx.textAlign = align;
      ctx.fillText(words, left, top);
    }
    function line(x0, y0, x1, y1, ink, dash = []) {
      ctx.strokeStyle = ink;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    function fitted(words, width) {
      if (ctx.measureText(words).width <= width) return words;
      let rest = words;
      while (rest && ctx.measureText(rest + "…").width > width) rest = rest.slice(0, -1);
      return rest.length > 1 ? rest + "…" : "";
    }
    function short(label, width) {
      // `cut-c… n2`, or at least `n2`: where a fault struck is dearer than what it was
      const cut = label.indexOf(" "),
        where = cut < 0 ? "" : label.slice(cut),
        kind = fitted(label.slice(0, label.length - where.length), width - ctx.measureText(where).width);
      return kind ? kind + where : fitted(where.trim(), width);
    }

    // ------------------------------------------------------------------------------------- time
    function axis() {
      const { times, digits } = timeline.ticks(state.view, place.right - place.left, place.width < 300 ? 70 : 110);
      ctx.lineWidth = 1;
      for (const time of times) {
        const at = Math.round(x(time)) + 0.5;
        line(at, AXIS - 4, at, place.bottom, colour.line);
        if (at < place.right - 20) text((time / 1e6).toFixed(digits) + " s", at, 9, colour.muted, "center");
      }
    }
    function windows() {
      // where every operation is drawn
      for (const [from, to] of data.windows) box(x(from), AXIS - 3, Math.max(2, x(to) - x(from)), 3, colour.shown);
    }
    function bands() {
      data.faults.forEach((fault, at) => {
        const from = x(fault.start),
          width = Math.max(2, x(fault.end) - from),
          faint = state.chosen.faults && !state.chosen.faults[at];
        if (from > place.right || from + width < place.left) return;
        const useless = fault.effective === false,
          doubtful = fault.effective === null,
          ink = useless ? colour.bad : colour.fault;
        box(from, AXIS, width, place.bottom - AXIS, ink, faint ? 0.02 : useless || doubtful ? 0.05 : 0.09);
        band(fault, from, width, ink, faint ? 0.05 : useless || doubtful ? 0.12 : 0.32);
      });
    }
    function band(fault, from, width, ink, alpha) {
      const top = place.faults + fault.lane * LANE,
        chosen = fault.id === state.fault;
      box(from, top, width, LANE - 3, ink, alpha);
      ctx.strokeStyle = chosen ? colour.ink : ink;
      ctx.lineWidth = chosen ? 2 : 1;
      ctx.setLineDash(fault.remark ? [3, 2] : []);
      ctx.strokeRect(from + 0.5, top + 0.5, width - 1, LANE - 4);
      ctx.setLineDash([]);
      ctx.lineWidth = 1;
      const shown = Math.max(from, place.left),
        after = Math.min(x(index.nextFault.get(fault)), place.right),
        end = Math.min(from + width, after);
      const words = (fault.remark ? fault.remark + ": " : "") + fault.label,
        wide = ctx.measureText(words).width;
      // A label that does not fit stands behind, before the lane's next fault.
      const beside = wide > end - shown - 8 && wide < after - end - 8;
      text(
        beside || wide <= end - shown - 6 ? words : short(fault.label, end - shown - 6),
        beside ? end + 4 : shown + 4,
        top + LANE / 2 - 1,
        colour.ink,
      );
    }

    // ---------------------------------------------------------------------------------- brokers
    function brokers() {
      data.brokers.forEach((broker, b) => {
        const top = place.brokers + b * BROKER,
          middle = top + BROKER / 2;
        line(place.left, top + BROKER - 1.5, place.right, top + BROKER - 1.5, colour.line);
        for (const [from, to, words] of broker.held) segment(x(from), x(to), top, words);
        for (const fault of data.faults)
          if (broker.faults.includes(fault.id))
            box(x(fault.start), top + BROKER - 5, Math.max(2, x(fault.end) - x(fault.start)), 3, colour.fault);
        flags(broker, middle);
      });
    }
    function segment(from, to, top, words) {
      const left = Math.max(from, place.left),
        right = Math.min(to, place.right);
      if (right <= left) return;
      box(from, top + 1, Math.max(1, to - from - 1), BROKER - 7, colour.muted, 0.14);
      box(from, top + 1, 1, BROKER - 7, colour.muted);
      if (right - left > 24) text(fitted(words, right - left - 6), left + 3, top + 7, colour.ink);
    }
    // A flag's role is written before the next flag; where a log names the roles, it is in the tip alone.
    function flags(broker, middle) {
      broker.sought.forEach(([time, role], n) => {
        const at = x(time),
          after = n + 1 < broker.sought.length ? x(broker.sought[n + 1][0]) : place.right;
        flag(at, middle);
        if (!broker.held.length) text(fitted(role, after - at - 12), at + 9, middle - 2, colour.ink);
      });
    }
    function flag(at, middle) {
      ctx.beginPath();
      ctx.moveTo(at, middle + 6);
      ctx.lineTo(at, middle - 7);
      ctx.lineTo(at + 6, middle - 4);
      ctx.lineTo(at, middle - 1);
      ctx.fillStyle = ctx.strokeStyle = colour.ink;
      ctx.fill();
      ctx.stroke();
    }

    // ------------------------------------------------------------------------------- operations
    function operations() {
      const height = place.row - 3,
        chosen = state.chosen.operations;
      index.rows.forEach((row, r) => {
        const top = place.body + r * place.row,
          { bars, dense } = timeline.decimated(row, ops, scale, chosen);
        for (const { i, from, width, faint } of bars) {
          const left = Math.max(from, place.left - 4);
          bar(left, top, Math.min(from + width, place.right + 4) - left, height, ops.outcome[i], ops.length[i] < 0, faint);
        }
        dense.forEach((rank, c) => {
          if (rank) bar(c, top, 1.6, height, (rank - 1) % 4, false, rank > 4);
        });
      });
      for (const [i, of] of index.guilty) {
        if (of.some((finding) => finding.forbidden)) outline(i, colour.mark);
        else if (of.includes(state.asked)) outline(i, colour.muted);
      }
      if (state.pin >= 0) outline(state.pin, colour.ink);
    }
    function bar(left, top, width, height, outcome, open, faint) {
      const name = OUTCOMES[outcome],
        gapped = width > 6 ? 1 : 0;
      if (faint) return box(left, top + height / 2 - 1, width - gapped, 2, colour.muted, 0.35);
      if (name === "ok") return box(left, top, width - gapped, height, colour.ok, 0.85);
      const low = name === "fail" ? top + height * 0.4 : top,
        tall = name === "fail" ? height * 0.6 : height; // fail is lower, info is hollow
      if (width < 4) return box(left, low, width, tall, colour[name]);
      box(left, low, width - gapped, tall, colour[name], open ? 0.08 : 0.18);
      box(left, low, width - gapped, tall, palette.hatch[name], open ? 0.5 : 1);
      ctx.strokeStyle = colour[name];
      ctx.strokeRect(left + 0.5, low + 0.5, Math.max(1, width - gapped - 1), tall - 1);
    }
    function outline(i, ink) {
      const from = x(ops.start[i]),
        width = Math.max(4, x(index.endOf(i)) - from + 1);
      ctx.strokeStyle = ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(from - 1, place.body + ops.row[i] * place.row - 1, width, place.row - 1);
      ctx.lineWidth = 1;
    }
    function marks() {
      if (data.finalAt !== null) {
        line(x(data.finalAt), AXIS, x(data.finalAt), place.bottom, colour.ink, [2, 3]);
        text("final read", x(data.finalAt) - 4, place.bottom - 7, colour.muted, "right");
      }
      const shown = state.asked && state.asked.time !== null ? [state.asked, ...index.marked] : index.marked;
      for (const finding of shown)
        if (!state.chosen.findings || state.chosen.findings[data.findings.indexOf(finding)]) diamond(finding);
    }
    function diamond(finding) {
      const at = x(finding.time),
        y = place.marks + MARKS / 2,
        chosen = finding.id === state.finding,
        size = chosen ? 7 : 5;
      const ink = finding.forbidden ? colour.mark : colour.muted;
      if (chosen) line(at, place.marks + MARKS, at, place.bottom, ink);
      ctx.beginPath();
      ctx.moveTo(at, y - size);
      ctx.lineTo(at + size, y);
      ctx.lineTo(at, y + size);
      ctx.lineTo(at - size, y);
      ctx.closePath();
      ctx.fillStyle = finding.forbidden ? ink : colour.sheet;
      ctx.fill();
      ctx.strokeStyle = ink;
      ctx.stroke();
    }
    // The numbered steps of the record's life that is shown.
    function life() {
      (state.life ? state.life.events : []).forEach((event, n) => {
        const i = index.positionOf.get(event.op);
        if (event.at === null || i === undefined) return;
        const at = x(event.at),
          y = place.body + (ops.row[i] + 0.5) * place.row - 1;
        ctx.beginPath();
        ctx.arc(at, y, 7, 0, 2 * Math.PI);
        ctx.fillStyle = colour.sheet;
        ctx.fill();
        ctx.strokeStyle = colour.ink;
        ctx.stroke();
        text(String(n + 1), at, y + 0.5, colour.ink, "center");
      });
    }
    function labels() {
      const edge = place.left - 6,
        wide = place.left - 10;
      if (place.lanes) text(fitted("faults", wide), edge, place.faults + LANE / 2, colour.muted, "right");
      data.brokers.forEach((broker, b) =>
        text(
          fitted(broker.node + (wide > 80 ? " broker" : ""), wide),
          edge,
          place.brokers + (b + 0.5) * BROKER - 2,
          colour.muted,
          "right",
        ),
      );
      if (place.body > place.marks) text(fitted("findings", wide), edge, place.marks + MARKS / 2, colour.muted, "right");
      const step = Math.max(1, Math.ceil(12 / place.row));
      let role = "";
      data.rows.forEach((row, r) => {
        const y = place.body + r * place.row,
          words =
            wide > 80
              ? row.label + (row.role === "writer" || row.label === row.role ? "" : " " + row.role)
              : row.label.split(" ")[0];
        if (row.role !== role) {
          role = row.role;
          if (r) line(0, y - 1.5, place.right, y - 1.5, colour.line);
        }
        if (r % step === 0) text(fitted(words, wide), edge, y + place.row / 2, colour.muted, "right");
      });
    }

    // ------------------------------------------------------------------------- under the pointer
    // What lies at a point: {op}, {finding}, {fault}, {broker, time, slack} or {row}; null for nothing.
    function hit(px, py) {
      if (!place || px > place.right) return null;
      const r = Math.floor((py - place.body) / place.row);
      if (px < place.left) return data.rows[r] ? { row: data.rows[r] } : null;
      const time = scale.time(px),
        slack = scale.time(px + 4) - time;
      if (py >= place.marks && py < place.body) return nearFinding(time, slack * 2);
      if (py >= place.brokers && py < place.marks - PAD) {
        const broker = data.brokers[Math.floor((py - place.brokers) / BROKER)];
        return broker ? { broker, time, slack } : null;
      }
      const fault = data.faults.find(
        (f) =>
          py >= place.faults + f.lane * LANE &&
          py < place.faults + f.lane * LANE + LANE &&
          time >= f.start - slack &&
          time <= f.end + slack,
      );
      if (fault) return { fault };
      const op = index.rows[r] ? timeline.operationAt(index.rows[r], ops, time, slack, index.forbidden) : null;
      return op === null ? null : { op };
    }
    function nearFinding(time, slack) {
      const near = index.marked
        .filter((finding) => Math.abs(finding.time - time) <= slack)
        .sort((a, b) => Math.abs(a.time - time) - Math.abs(b.time - time));
      return near.length ? { finding: near[0] } : null;
    }
    return {
      draw,
      hit,
      timeAt: (px) => scale.time(px),
      get place() {
        return place;
      },
    };
  };
})((globalThis.fencepostTimeline ??= {}));
