"use strict";
// Moves of the view and of the selection. `page` has the data, its index, the state and the panel.
(function (timeline) {
  timeline.moves = function (page) {
    const { data, index, state, panel, whole, canvas, by } = page,
      { ops } = data,
      { changed } = page;
    function look(view) {
      state.view = timeline.clamped(view, whole);
      page.tip.hidden = true;
      changed();
    }
    function around(from, to) {
      // a view with room on both sides
      const margin = Math.max((to - from) / 4, 5e5 - (to - from) / 2, 0);
      look({ from: from - margin, to: to + margin });
    }
    function reveal(i) {
      // moves the view only where the operation is not in it
      const from = ops.start[i],
        to = index.endOf(i),
        { view } = state,
        span = view.to - view.from;
      if (from < view.from || to > view.to)
        look(
          to - from > span
            ? { from: from - span / 4, to: to + span / 4 }
            : { from: (from + to - span) / 2, to: (from + to + span) / 2 },
        );
    }
    const showWhole = () => look(whole);

    function pin(i, there) {
      Object.assign(state, { pin: i, life: there ? state.life : null, fault: null });
      if (i < 0) panel.nothing();
      else {
        panel.operation(i, state.life);
        reveal(i);
      }
      changed();
    }
    function showFinding(finding) {
      if (!finding) return;
      const first = finding.operations.map((op) => index.positionOf.get(op)).find((position) => position !== undefined);
      const time = finding.time === null ? (first === undefined ? 0 : ops.start[first]) : finding.time,
        length = first === undefined ? 0 : Math.max(0, ops.length[first]);
      const span = Math.max(length * 6, 1e6);
      Object.assign(state, {
        finding: finding.id,
        asked: finding.forbidden ? null : finding,
        life: null,
        fault: null,
        pin: first === undefined ? -1 : first,
      });
      look({ from: time - span / 2, to: time + span / 2 });
      if (first === undefined)
        panel.text(timeline.findingText(finding), [["#finding-" + finding.id, "Read finding " + finding.id]]);
      else panel.operation(first);
    }
    function showFault(fault) {
      if (!fault) return;
      Object.assign(state, { fault: fault.id, pin: -1, life: null });
      around(fault.start, fault.end);
      panel.text(timeline.faultText(fault), [["#fault-" + fault.id, "Read its receipt"]]);
    }
    function showLife(life, finding) {
      const times = life.events.map((event) => event.at).filter((at) => at !== null),
        sender = life.events.map((event) => index.positionOf.get(event.op)).find((i) => i !== undefined);
      Object.assign(state, {
        life,
        finding: finding.id,
        fault: null,
        asked: finding.forbidden ? null : finding,
        pin: sender === undefined ? -1 : sender,
      });
      if (times.length) around(Math.min(...times), Math.max(...times));
      if (sender === undefined) panel.life(life);
      else panel.operation(sender, life);
      by("timeline").scrollIntoView();
      canvas.focus({ preventScroll: true });
    }
    function next(all, at, by) {
      // the next of those that the filter leaves, around in a ring
      if (!all.length) return undefined;
      const place = all.findIndex((each) => each.id === at);
      return all[place < 0 ? (by < 0 ? all.length - 1 : 0) : (place + by + all.length) % all.length];
    }
    const left = (all, chosen, of) => (chosen ? all.filter((each) => chosen[of.indexOf(each)]) : all);
    const stepFinding = (by) => showFinding(next(left(index.marked, state.chosen.findings, data.findings), state.finding, by));
    const stepFault = (by) => showFault(next(left(index.faults, state.chosen.faults, data.faults), state.fault, by));
    function stepOperation(by) {
      if (state.pin >= 0) return pin(timeline.neighbour(index.rows, ops, state.pin, by, state.chosen.operations));
      const middle = (state.view.from + state.view.to) / 2;
      const r = index.rows.findIndex((row) => timeline.nearest(row, ops, middle, state.chosen.operations) !== null);
      if (r >= 0) pin(timeline.nearest(index.rows[r], ops, middle, state.chosen.operations));
    }
    function stepRow(by) {
      const i = state.pin;
      if (i < 0) return stepOperation(1);
      const middle = (Math.max(ops.start[i], state.view.from) + Math.min(index.endOf(i), state.view.to)) / 2;
      const near = timeline.inNextRow(index.rows, ops, ops.row[i], by, middle, state.chosen.operations);
      if (near !== null) pin(near);
    }
    function edge(by) {
      if (state.pin < 0) return;
      const row = index.rows[ops.row[state.pin]].at.filter((i) => !state.chosen.operations || state.chosen.operations[i]);
      if (row.length) pin(row[by < 0 ? 0 : row.length - 1]);
    }
    function follow() {
      if (state.pin < 0) return;
      const [record] = timeline.recordsOf(data, state.pin);
      if (record) {
        state.life = timeline.lifeOf(data, state.pin, record);
        panel.operation(state.pin, state.life);
        changed();
      }
    }
    function clear() {
      state.asked = null;
      pin(-1);
    }

    // Zooming keeps what is selected in view.
    function zoom(factor, time) {
      const { view, pin: i } = state,
        at = i < 0 ? NaN : (ops.start[i] + index.endOf(i)) / 2;
      look(timeline.zoomed(view, factor, time !== undefined ? time : at > view.from && at < view.to ? at : undefined));
    }
    const pan = (part) => look(timeline.panned(state.view, part));
    const moving = { look, around, zoom, pan, showWhole, pin, showFinding, showFault, showLife };
    return { ...moving, stepFinding, stepFault, stepOperation, stepRow, edge, follow, clear };
  };
})((globalThis.fencepostTimeline ??= {}));
