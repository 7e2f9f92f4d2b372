"use strict";
// The timeline: throughput, what readers had not seen, faults, forbidden findings and one row of operations per worker, on one canvas with one time axis.
// Times are microseconds since the start of the run. Everything that comes from the run is drawn or set as text, never as markup.
(function () {
  const source = document.getElementById("timeline-data");
  if (!source) return;
  const data = JSON.parse(source.textContent), ops = data.ops, count = ops.index.length;
  const canvas = document.getElementById("canvas"), ctx = canvas.getContext("2d");
  const tip = document.getElementById("tip"), pinned = document.getElementById("pinned");
  const OUTCOMES = ["ok", "fail", "info"], SEVERITY = [1, 2, 3];
  const AXIS = 20, STRIP = 76, CURVE = data.unseen.length ? 50 : 0, LANE = 17, MARKS = 18, PAD = 5, SHORTEST = 500;
  const whole = { from: -data.end * 0.01 - 1000, to: data.end * 1.01 + 1000 };
  const view = { from: whole.from, to: whole.to };
  const findings = data.findings.filter((finding) => finding.forbidden).sort((a, b) => a.time - b.time); // a permitted one shows only when asked for
  const state = { pin: -1, finding: -1, asked: null, drag: null, width: 0, height: 0 };
  let colour = {}, hatch = {}, place = {};

  // ------------------------------------------------------------------------------------ indexes
  const positionOf = new Map(ops.index.map((index, position) => [index, position]));
  const guilty = new Map(); // position -> findings
  for (const finding of data.findings)
    for (const index of finding.operations) {
      const position = positionOf.get(index);
      if (position !== undefined) guilty.set(position, (guilty.get(position) || []).concat(finding));
    }
  const forbidden = (position) => (guilty.get(position) || []).some((finding) => finding.forbidden);
  // Per row: operations by start, their ends, and the latest end so far, so that a view finds its first operation by bisection.
  const rows = data.rows.map(() => ({ at: [], end: [], latest: [] }));
  for (let i = 0; i < count; i++) rows[ops.row[i]].at.push(i);
  for (const row of rows) {
    let latest = -Infinity;
    row.at.forEach((i, n) => {
      const next = n + 1 < row.at.length ? ops.start[row.at[n + 1]] : data.end;
      const end = ops.length[i] >= 0 ? ops.start[i] + ops.length[i] : Math.max(ops.start[i], next);
      row.end.push(end);
      row.latest.push((latest = Math.max(latest, end)));
    });
  }
  const lanes = []; // faults that overlap lie in different lanes
  for (const fault of data.faults.slice().sort((a, b) => a.start - b.start)) {
    let lane = lanes.findIndex((last) => last.end <= fault.start);
    if (lane < 0) lane = lanes.push(null) - 1;
    if (lanes[lane]) lanes[lane].next = fault.start;
    lanes[lane] = Object.assign(fault, { lane, next: Infinity });
  }
  function bisect(values, wanted) { // first position whose value is >= wanted
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
  }

  // ------------------------------------------------------------------------------------- layout
  function measure() {
    const width = canvas.parentElement.clientWidth, ratio = window.devicePixelRatio || 1;
    const row = data.rows.length <= 30 ? 17 : data.rows.length <= 90 ? 12 : 7;
    const left = width < 560 ? 52 : 116;
    const curve = AXIS + STRIP, faults = curve + CURVE + PAD, marks = faults + lanes.length * LANE + (lanes.length ? PAD : 0);
    const body = marks + (findings.length || state.asked ? MARKS : 0), height = body + data.rows.length * row + PAD;
    place = { left, right: width - 8, row, curve, faults, marks, body, bottom: body + data.rows.length * row };
    if (state.width !== width || state.height !== height || canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
      Object.assign(state, { width, height });
    }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const x = (time) => place.left + ((time - view.from) / (view.to - view.from)) * (place.right - place.left);
  const timeAt = (px) => view.from + ((px - place.left) / (place.right - place.left)) * (view.to - view.from);

  function palette() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ok", "fail", "info", "ink", "muted", "line", "soft", "sheet", "fault", "bad", "mark", "shown"])
      colour[name] = style.getPropertyValue("--" + name).trim();
    hatch = { fail: pattern(colour.fail, (c) => { c.moveTo(-1, 5); c.lineTo(5, -1); }), info: pattern(colour.info, (c) => { c.moveTo(1, 1.5); c.lineTo(2.5, 1.5); }) };
  }
  function pattern(ink, draw) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 4;
    const c = tile.getContext("2d");
    c.strokeStyle = ink;
    c.lineWidth = 1.4;
    c.beginPath();
    draw(c);
    c.stroke();
    return ctx.createPattern(tile, "repeat");
  }

  // ------------------------------------------------------------------------------------ drawing
  let waiting = false;
  function redraw() {
    if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); }
  }
  function draw() {
    measure();
    ctx.clearRect(0, 0, state.width, state.height);
    ctx.font = "11px " + getComputedStyle(document.body).fontFamily;
    ctx.textBaseline = "middle";
    axis();
    clipped(bands);
    clipped(throughput);
    if (CURVE) clipped(unseen);
    clipped(operations);
    clipped(marks);
    labels();
  }
  function clipped(part) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(place.left, 0, place.right - place.left, state.height);
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
    let kept = words;
    while (kept && ctx.measureText(kept + "…").width > width) kept = kept.slice(0, -1);
    return kept.length > 1 ? kept + "…" : "";
  }

  function short(label, width) { // `cut-c… n2`, or at least `n2`: where a fault struck is dearer than what it was
    const cut = label.indexOf(" "), where = cut < 0 ? "" : label.slice(cut), kind = fitted(label.slice(0, label.length - where.length), width - ctx.measureText(where).width);
    return kind ? kind + where : fitted(where.trim(), width);
  }

  function axis() {
    const rough = ((view.to - view.from) / Math.max(2, (place.right - place.left) / 110)) || 1;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step) + 1e-9)));
    ctx.lineWidth = 1;
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const at = Math.round(x(t)) + 0.5;
      line(at, AXIS - 4, at, place.bottom, colour.line);
      if (at < place.right - 20) text((t / 1e6).toFixed(digits) + " s", at, 9, colour.muted, "center");
    }
  }
  function bands() {
    for (const fault of data.faults) {
      const from = x(fault.start), width = Math.max(2, x(fault.end) - from), useless = fault.effective === false, doubtful = fault.effective === null;
      if (from > place.right || from + width < place.left) continue;
      const top = place.faults + fault.lane * LANE, ink = useless ? colour.bad : colour.fault;
      box(from, AXIS, width, place.bottom - AXIS, ink, useless || doubtful ? 0.05 : 0.09);
      box(from, top, width, LANE - 3, ink, useless || doubtful ? 0.12 : 0.32);
      ctx.strokeStyle = ink;
      ctx.setLineDash(fault.remark ? [3, 2] : []);
      ctx.strokeRect(from + 0.5, top + 0.5, width - 1, LANE - 4);
      ctx.setLineDash([]);
      const shown = Math.max(from, place.left), after = Math.min(x(fault.next), place.right), end = Math.min(from + width, after);
      const words = (fault.remark ? fault.remark + ": " : "") + fault.label, wide = ctx.measureText(words).width;
      const beside = wide > end - shown - 8 && wide < after - end - 8; // a label that does not fit stands behind, before the lane's next fault
      text(beside || wide <= end - shown - 6 ? words : short(fault.label, end - shown - 6), beside ? end + 4 : shown + 4, top + LANE / 2 - 1, colour.ink);
    }
  }
  function throughput() {
    const bin = data.throughput.bin, width = x(bin) - x(0), merged = Math.max(1, Math.ceil(2 / width)), base = AXIS + STRIP;
    const first = Math.max(0, Math.floor(view.from / bin / merged) * merged), last = Math.min(data.throughput.ok.length, Math.ceil(view.to / bin));
    const sums = [];
    let most = 1;
    for (let b = first; b < last; b += merged) {
      const sum = OUTCOMES.map((name) => data.throughput[name].slice(b, b + merged).reduce((a, n) => a + n, 0) / (merged * bin / 1e6));
      sums.push([b, sum]);
      most = Math.max(most, sum[0] + sum[1] + sum[2]);
    }
    place.most = most;
    for (const [b, sum] of sums) {
      let top = base;
      OUTCOMES.forEach((name, n) => {
        const height = (sum[n] / most) * (STRIP - 24), wide = Math.max(1, width * merged - 1);
        if (!height) return;
        top -= height;
        box(x(b * bin), top, wide, height, colour[name], name === "ok" ? 0.8 : 0.3);
        if (hatch[name]) box(x(b * bin), top, wide, height, hatch[name]);
      });
    }
    line(place.left, base + 0.5, place.right, base + 0.5, colour.muted);
    if (data.gap && data.gap[1] - data.gap[0] > 500000) gap(data.gap[0], data.gap[1]);
  }
  function gap(from, to) {
    if (x(to) < place.left || x(from) > place.right || x(to) - x(from) < 3) return;
    const y = AXIS + 7, words = ((to - from) / 1e6).toFixed(1) + " s without a success";
    ctx.lineWidth = 2;
    line(x(from), y, x(to), y, colour.bad);
    line(x(from), y - 4, x(from), y + 4, colour.bad);
    line(x(to), y - 4, x(to), y + 4, colour.bad);
    ctx.lineWidth = 1;
    const wide = ctx.measureText(words).width, middle = Math.min(Math.max((x(from) + x(to)) / 2, place.left + wide / 2 + 4), place.right - wide / 2 - 4);
    box(middle - wide / 2 - 3, y + 5, wide + 6, 14, colour.sheet, 0.85);
    text(words, middle, y + 12, colour.bad, "center");
  }
  // Samples joined by straight lines; each is a dot once there is room.
  function unseen() {
    const all = data.unseen, times = all.map((point) => point[0]), base = place.curve + CURVE - 4;
    const first = Math.max(0, bisect(times, view.from) - 1), shown = all.slice(first, bisect(times, view.to) + 1);
    const most = Math.max(1, ...shown.map((point) => point[1])), y = (number) => base - (number / most) * (CURVE - 18);
    place.unseen = Math.max(0, ...shown.map((point) => point[1]));
    line(place.left, base + 0.5, place.right, base + 0.5, colour.line);
    if (!shown.length) return;
    ctx.beginPath();
    for (const [time, number] of shown) ctx.lineTo(x(time), y(number));
    ctx.strokeStyle = ctx.fillStyle = colour.shown;
    ctx.lineWidth = 1.5;
    ctx.stroke();
    ctx.lineWidth = 1;
    ctx.lineTo(x(shown[shown.length - 1][0]), base);
    ctx.lineTo(x(shown[0][0]), base);
    ctx.globalAlpha = 0.2;
    ctx.fill();
    ctx.globalAlpha = 1;
    if (shown.length > 1 && x(shown[1][0]) - x(shown[0][0]) < 14) return;
    for (const [time, number] of shown) box(x(time) - 2, y(number) - 2, 4, 4, colour.shown);
  }
  // Operations narrower than a pixel or two share a column; the least certain outcome in it wins, so that nothing rare is hidden.
  function operations() {
    const columns = Math.ceil(place.right) + 2, height = place.row - 3;
    rows.forEach((row, r) => {
      const top = place.body + r * place.row, dense = new Uint8Array(columns);
      for (let n = bisect(row.latest, view.from); n < row.at.length; n++) {
        const i = row.at[n], from = x(ops.start[i]);
        if (from > place.right) break;
        const width = x(row.end[n]) - from;
        if (width < 2) { const c = Math.max(0, Math.floor(from)); dense[c] = Math.max(dense[c], SEVERITY[ops.outcome[i]]); }
        else bar(Math.max(from, place.left - 4), top, Math.min(from + width, place.right + 4) - Math.max(from, place.left - 4), height, ops.outcome[i], ops.length[i] < 0);
      }
      for (let c = 0; c < columns; c++) if (dense[c]) bar(c, top, 1.6, height, dense[c] - 1, false);
    });
    for (const [i, of] of guilty) {
      if (forbidden(i)) outline(i, colour.mark);
      else if (of.includes(state.asked)) outline(i, colour.muted);
    }
    if (state.pin >= 0) outline(state.pin, colour.ink);
  }
  function bar(left, top, width, height, outcome, open) {
    const name = OUTCOMES[outcome], gapped = width > 6 ? 1 : 0;
    if (name === "ok") return box(left, top, width - gapped, height, colour.ok, 0.85);
    const low = name === "fail" ? top + height * 0.4 : top, tall = name === "fail" ? height * 0.6 : height; // fail is lower, info is hollow
    if (width < 4) return box(left, low, width, tall, colour[name]);
    box(left, low, width - gapped, tall, colour[name], open ? 0.08 : 0.18);
    box(left, low, width - gapped, tall, hatch[name], open ? 0.5 : 1);
    ctx.strokeStyle = colour[name];
    ctx.strokeRect(left + 0.5, low + 0.5, Math.max(1, width - gapped - 1), tall - 1);
  }
  function outline(i, ink) {
    const row = rows[ops.row[i]], n = row.at.indexOf(i), from = x(ops.start[i]);
    ctx.strokeStyle = ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(from - 1, place.body + ops.row[i] * place.row - 1, Math.max(4, x(row.end[n]) - from + 1), place.row - 1);
    ctx.lineWidth = 1;
  }
  function marks() {
    if (data.finalAt !== null) {
      const at = x(data.finalAt);
      line(at, AXIS, at, place.bottom, colour.ink, [2, 3]);
      text("final read", at - 4, AXIS + 7, colour.muted, "right");
    }
    for (const finding of state.asked ? [state.asked, ...findings] : findings) {
      const at = x(finding.time), y = place.marks + MARKS / 2, chosen = finding.id === state.finding, size = chosen ? 7 : 5;
      const ink = finding.forbidden ? colour.mark : colour.muted;
      if (chosen) line(at, place.marks + MARKS, at, place.bottom, ink);
      ctx.beginPath();
      ctx.moveTo(at, y - size); ctx.lineTo(at + size, y); ctx.lineTo(at, y + size); ctx.lineTo(at - size, y);
      ctx.closePath();
      ctx.fillStyle = finding.forbidden ? ink : colour.sheet;
      ctx.fill();
      ctx.strokeStyle = ink;
      ctx.stroke();
    }
  }
  function labels() {
    const edge = place.left - 6, wide = place.left - 10;
    text(fitted(place.most.toFixed(0) + "/s", wide), edge, AXIS + 12, colour.muted, "right");
    text(wide > 80 ? "writes ended" : "writes", edge, AXIS + STRIP / 2 + 4, colour.muted, "right");
    if (CURVE) {
      text(fitted(place.unseen.toLocaleString("en"), wide), edge, place.curve + 14, colour.muted, "right");
      text("unseen", edge, place.curve + CURVE - 12, colour.muted, "right");
    }
    if (lanes.length) text("faults", edge, place.faults + LANE / 2, colour.muted, "right");
    if (findings.length || state.asked) text("findings", edge, place.marks + MARKS / 2, colour.muted, "right");
    const step = Math.max(1, Math.ceil(12 / place.row));
    let role = "";
    data.rows.forEach((row, r) => {
      const y = place.body + r * place.row;
      if (row.role !== role) { role = row.role; if (r) line(0, y - 1.5, place.right, y - 1.5, colour.line); }
      if (r % step) return;
      const label = place.left > 100 ? row.label + (row.role === "writer" || row.label === row.role ? "" : " " + row.role) : row.label.split(" ")[0];
      text(fitted(label, wide), edge, y + place.row / 2, colour.muted, "right");
    });
  }

  // ---------------------------------------------------------------------------------- what it is
  const seconds = (us) => (us / 1e6).toFixed(6).replace(/0{1,3}$/, "") + " s";
  function said(i) {
    const took = ops.length[i] < 0 ? "never completed" : "took " + (ops.length[i] < 1e6 ? (ops.length[i] / 1e3).toFixed(1) + " ms" : seconds(ops.length[i]));
    const intent = ops.intents[ops.intent[i]];
    const lines = [ops.fs[ops.f[i]] + (intent ? " (" + intent + ")" : "") + ": " + OUTCOMES[ops.outcome[i]],
      data.rows[ops.row[i]].label + ", process " + ops.process[i] + ", op " + ops.op[i] + " (operation " + ops.index[i] + ")", "at " + seconds(ops.start[i]) + ", " + took];
    const got = [], mops = data.mops[i], more = data.mopCount[i] - mops.length / 3;
    for (let m = 0; m < mops.length; m += 3) {
      const value = data.values[i] && data.values[i][m / 3];
      got.push((mops[m] ? "read " : "send ") + data.partitions[mops[m + 1]] + "@" + (mops[m + 2] < 0 ? "?" : mops[m + 2]) + (value ? " = " + value : ""));
    }
    if (got.length) lines.push(got.join(", ") + (more > 0 ? " and " + more + " more" : ""));
    if (data.mopCount[i] < 0) lines.push("its records are in the history: of so many operations only those of findings have them here");
    for (const error of data.errors[i] || []) lines.push("error: " + error.filter(Boolean).join(" → "));
    if (guilty.has(i)) lines.push("part of finding " + guilty.get(i).map((finding) => finding.id + (finding.forbidden ? "" : " (permitted)")).join(", "));
    return lines.join("\n");
  }
  function hit(px, py) {
    if (px < place.left || px > place.right) return null;
    const time = timeAt(px), slack = timeAt(px + 4) - time;
    if (findings.length && py >= place.marks && py < place.marks + MARKS) {
      const near = findings.reduce((best, f) => (Math.abs(f.time - time) < Math.abs(best.time - time) ? f : best));
      return Math.abs(near.time - time) <= slack * 2 ? { finding: near } : null;
    }
    if (py >= place.curve && py < place.curve + CURVE) {
      const near = data.unseen.reduce((best, point) => (Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best));
      return Math.abs(near[0] - time) <= Math.max(slack * 2, data.end / data.unseen.length) ? { unseen: near } : null;
    }
    const fault = data.faults.find((f) => py >= place.faults + f.lane * LANE && py < place.faults + f.lane * LANE + LANE && time >= f.start - slack && time <= f.end + slack);
    if (fault) return { fault };
    const row = rows[Math.floor((py - place.body) / place.row)];
    if (!row) return null;
    let best = null, distance = slack;
    for (let n = bisect(row.latest, time - slack); n < row.at.length && ops.start[row.at[n]] <= time + slack; n++) {
      const away = time < ops.start[row.at[n]] ? ops.start[row.at[n]] - time : Math.max(0, time - row.end[n]);
      if (away < distance || (away === 0 && best === null) || (away <= distance && forbidden(row.at[n]))) { best = row.at[n]; distance = away; }
    }
    return best === null ? null : { op: best };
  }
  function describe(found) {
    if (found.op !== undefined) return said(found.op);
    if (found.unseen) return found.unseen[1].toLocaleString("en") + " committed, not yet got by any reader\nat " + seconds(found.unseen[0]);
    if (found.finding) return found.finding.anomaly + " at " + seconds(found.finding.time) + "\n" + found.finding.sentence;
    const f = found.fault;
    return f.label + "\nfrom " + seconds(f.start) + " to " + seconds(f.end) + (f.remark ? "\n" + f.remark : "");
  }
  function pin(i) {
    state.pin = i;
    pinned.hidden = i < 0;
    pinned.textContent = i < 0 ? "" : said(i);
    for (const finding of guilty.get(i) || []) {
      const link = document.createElement("a");
      link.href = "#finding-" + finding.id;
      link.textContent = "Read finding " + finding.id;
      pinned.append(document.createElement("br"), link);
    }
    redraw();
  }

  // ------------------------------------------------------------------------------------- moving
  function look(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST), whole.to - whole.from), middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - span / 2, whole.from), whole.to - span);
    view.to = view.from + span;
    tip.hidden = true;
    redraw();
  }
  const zoom = (factor, around = (view.from + view.to) / 2) => look(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const pan = (part) => look(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  function show(finding) {
    if (!finding) return;
    state.finding = finding.id;
    state.asked = finding.forbidden ? null : finding;
    const first = finding.operations.map((index) => positionOf.get(index)).find((position) => position !== undefined);
    const length = first === undefined ? 0 : Math.max(0, ops.length[first]);
    const span = Math.max(length * 6, 1e6);
    look(finding.time - span / 2, finding.time + span / 2);
    pin(first === undefined ? -1 : first);
  }
  function step(by) {
    const at = findings.findIndex((f) => f.id === state.finding);
    if (findings.length) show(findings[(at < 0 ? (by < 0 ? findings.length - 1 : 0) : at + by + findings.length) % findings.length]);
  }

  const point = (event) => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  canvas.addEventListener("wheel", (event) => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); return pan(event.deltaX / 800); }
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // else the page could not be scrolled past the chart
    event.preventDefault();
    zoom(Math.pow(1.0018, event.deltaY), timeAt(point(event)[0]));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    state.drag = { at: event.clientX, from: view.from, to: view.to, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = point(event), drag = state.drag;
    if (drag) {
      drag.moved = drag.moved || Math.abs(event.clientX - drag.at) > 3;
      const by = ((event.clientX - drag.at) / (place.right - place.left)) * (drag.to - drag.from);
      return drag.moved && look(drag.from - by, drag.to - by);
    }
    const found = hit(px, py);
    canvas.style.cursor = found ? "pointer" : "grab";
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = describe(found);
    tip.style.left = Math.max(4, Math.min(px + 14, state.width - tip.offsetWidth - 6)) + "px";
    tip.style.top = (py + 18 + tip.offsetHeight > state.height ? Math.max(4, py - tip.offsetHeight - 12) : py + 18) + "px";
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (!drag || drag.moved) return;
    const found = hit(...point(event));
    if (found && found.finding) return show(found.finding);
    pin(found && found.op !== undefined ? found.op : -1);
  });
  canvas.addEventListener("pointercancel", () => { state.drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  const keys = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), 0: () => look(whole.from, whole.to),
    Home: () => look(whole.from, whole.to), n: () => step(1), p: () => step(-1), Escape: () => { state.asked = null; pin(-1); } };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const buttons = { jump: () => show(findings[0]), previous: () => step(-1), next: () => step(1), "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), whole: () => look(whole.from, whole.to) };
  for (const [id, act] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", act);
  for (const id of ["jump", "previous", "next"]) document.getElementById(id).disabled = !findings.length;
  for (const link of document.querySelectorAll("[data-finding]"))
    link.addEventListener("click", () => show(data.findings.find((finding) => String(finding.id) === link.dataset.finding)));

  const repaint = () => { palette(); draw(); };
  window.addEventListener("resize", redraw);
  for (const [name, paper] of [["beforeprint", true], ["afterprint", false]]) // a dark page is printed in light colours
    window.addEventListener(name, () => { document.documentElement.classList.toggle("paper", paper); repaint(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  repaint();
})();
