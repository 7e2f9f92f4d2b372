"use strict";
// Operations in rows: which are in view, which lies under a pointer, which is next to another.
(function (timeline) {
  const SEVERITY = [1, 2, 3]; // of ok, fail, info: the least certain outcome of a pixel wins, so that nothing rare is hidden

  // Per row: operations by start, their ends, and the latest end so far, so that a view finds its first operation by bisection.
  timeline.rowsOf = function (ops, count, end) {
    const rows = Array.from({ length: count }, () => ({ at: [], end: [], latest: [] }));
    ops.index.forEach((_, i) => rows[ops.row[i]].at.push(i));
    for (const row of rows) {
      let latest = -Infinity;
      row.at.forEach((i, n) => {
        const next = n + 1 < row.at.length ? ops.start[row.at[n + 1]] : end;
        const until = ops.length[i] >= 0 ? ops.start[i] + ops.length[i] : Math.max(ops.start[i], next);
        row.end.push(until);
        row.latest.push((latest = Math.max(latest, until)));
      });
    }
    return rows;
  };

  // What is looked up again and again.
  timeline.index = function (data) {
    const { ops } = data,
      rows = timeline.rowsOf(ops, data.rows.length, data.end);
    const positionOf = new Map(ops.index.map((index, position) => [index, position])),
      guilty = new Map(); // position -> findings
    for (const finding of data.findings)
      for (const position of finding.operations.map((op) => positionOf.get(op)))
        if (position !== undefined) guilty.set(position, (guilty.get(position) || []).concat(finding));
    const shown = (finding) => finding.forbidden && finding.time !== null; // permitted ones only when asked for
    const marked = data.findings.filter(shown).sort((a, b) => a.time - b.time);
    const faults = data.faults.slice().sort((a, b) => a.start - b.start);
    const nextFault = new Map(),
      nearest = new Map(); // lane -> the fault that begins next
    for (const fault of faults.slice().reverse()) {
      nextFault.set(fault, nearest.has(fault.lane) ? nearest.get(fault.lane).start : Infinity);
      nearest.set(fault.lane, fault);
    }
    const forbidden = (i) => (guilty.get(i) || []).some((finding) => finding.forbidden);
    return { rows, positionOf, guilty, marked, faults, nextFault, forbidden, endOf: (i) => timeline.endOf(rows, ops, i) };
  };

  timeline.endOf = (rows, ops, i) => {
    const row = rows[ops.row[i]];
    return row.end[placeOf(row, i)];
  };
  function placeOf(row, i) {
    // positions in a row ascend, since operations are in order of time
    return timeline.bisect(row.at, i);
  }

  // What a row shows: bars that are wide enough, and for each pixel the least certain of those that are not.
  timeline.decimated = function (row, ops, scale, chosen) {
    const columns = Math.max(0, Math.ceil(scale.right)) + 2,
      dense = new Uint8Array(columns),
      bars = [];
    for (let n = timeline.bisect(row.latest, scale.time(scale.left)); n < row.at.length; n++) {
      const i = row.at[n],
        from = scale.x(ops.start[i]),
        width = scale.x(row.end[n]) - from;
      if (from > scale.right) break;
      const faint = chosen && !chosen[i] ? 4 : 0; // what the filter leaves out gives way to what it does not
      if (width >= 2) {
        bars.push({ i, from, width, faint: Boolean(faint) });
        continue;
      }
      const c = Math.max(0, Math.floor(from)),
        rank = SEVERITY[ops.outcome[i]];
      if (!dense[c] || (faint ? dense[c] > 4 && rank + faint > dense[c] : dense[c] > 4 || rank > dense[c]))
        dense[c] = rank + faint;
    }
    return { bars, dense };
  };

  // The operation of a row at a time, or near it; of several the one that is preferred.
  timeline.operationAt = function (row, ops, time, slack, preferred = () => false) {
    let best = null,
      distance = slack;
    for (let n = timeline.bisect(row.latest, time - slack); n < row.at.length && ops.start[row.at[n]] <= time + slack; n++) {
      const away = time < ops.start[row.at[n]] ? ops.start[row.at[n]] - time : Math.max(0, time - row.end[n]);
      if (away < distance || (away === 0 && best === null) || (away <= distance && preferred(row.at[n]))) {
        best = row.at[n];
        distance = away;
      }
    }
    return best;
  };

  // The operation before or after another in its row; at the row's end the same. `chosen` leaves some out.
  timeline.neighbour = function (rows, ops, i, by, chosen) {
    const row = rows[ops.row[i]];
    for (let n = placeOf(row, i) + by; n >= 0 && n < row.at.length; n += by) if (!chosen || chosen[row.at[n]]) return row.at[n];
    return i;
  };

  // The operation nearest to a time in the next row above or below that has any; null at the edge.
  timeline.inNextRow = function (rows, ops, r, by, time, chosen) {
    for (let next = r + by; next >= 0 && next < rows.length; next += by) {
      const near = timeline.nearest(rows[next], ops, time, chosen);
      if (near !== null) return near;
    }
    return null;
  };
  timeline.nearest = function (row, ops, time, chosen) {
    let best = null,
      distance = Infinity;
    row.at.forEach((i, n) => {
      if (chosen && !chosen[i]) return;
      const away = time < ops.start[i] ? ops.start[i] - time : Math.max(0, time - row.end[n]);
      if (away < distance) {
        best = i;
        distance = away;
      }
    });
    return best;
  };
})((globalThis.fencepostTimeline ??= {}));
