"use strict";
// The timeline on the page: its state, and everything that changes it. Whatever comes from the run is drawn or set as text, never as markup.
(function (timeline) {
  const source = document.getElementById("timeline-data");
  if (!source) return;
  const by = (id) => document.getElementById(id);
  const data = timeline.read(JSON.parse(source.textContent)), { ops } = data, index = timeline.index(data), whole = timeline.wholeView(data.end);
  const nothing = { operations: null, findings: null, faults: null };
  const state = { view: { ...whole }, pin: -1, finding: null, fault: null, asked: null, life: null, filter: "", chosen: nothing, anchor: "" };
  const canvas = by("canvas"), tip = by("tip"), palette = timeline.palette();
  const painter = timeline.painter(canvas, data, index, palette), minimap = timeline.minimap(by("minimap"), data, palette, () => state.view, look);
  const curves = timeline.curves(data, palette, by("curves"), look);
  const panel = timeline.panel(data, index, by("pinned"), by("selection"), { choose: (i, there) => pin(i, there), live: (life, i) => { state.life = life; panel.operation(i, life); changed(); } });

  // ------------------------------------------------------------------------------------ drawing
  let waiting = false;
  function redraw() {
    if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); }
  }
  function draw() { // nothing where the page is hidden or has no room: the observer below comes back to it
    if (!painter.draw(state)) return;
    const { left, width } = painter.place;
    minimap.draw(left);
    curves.draw(state.view, left, width);
  }
  function repaint() {
    palette.refresh();
    draw();
    curves.repaint();
  }
  new ResizeObserver(redraw).observe(by("figure"));
  window.addEventListener("resize", redraw);
  for (const [name, paper] of [["beforeprint", true], ["afterprint", false]]) // a dark page is printed in light colours
    window.addEventListener(name, () => { document.documentElement.classList.toggle("paper", paper); repaint(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  // ------------------------------------------------------------------------------------- moving
  function look(view) {
    state.view = timeline.clamped(view, whole);
    tip.hidden = true;
    changed();
  }
  function around(from, to) { // a view with room on both sides
    const margin = Math.max((to - from) / 4, 5e5 - (to - from) / 2, 0);
    look({ from: from - margin, to: to + margin });
  }
  function reveal(i) { // moves the view only where the operation is not in it
    const from = ops.start[i], to = index.endOf(i), { view } = state, span = view.to - view.from;
    if (from < view.from || to > view.to) look(to - from > span ? { from: from - span / 4, to: to + span / 4 } : { from: (from + to - span) / 2, to: (from + to + span) / 2 });
  }
  const whenShown = () => look(whole);

  function pin(i, there) {
    Object.assign(state, { pin: i, life: there ? state.life : null, fault: null });
    if (i < 0) panel.nothing(); else { panel.operation(i, state.life); reveal(i); }
    changed();
  }
  function showFinding(finding) {
    if (!finding) return;
    const first = finding.operations.map((op) => index.positionOf.get(op)).find((position) => position !== undefined);
    const time = finding.time === null ? (first === undefined ? 0 : ops.start[first]) : finding.time, length = first === undefined ? 0 : Math.max(0, ops.length[first]);
    const span = Math.max(length * 6, 1e6);
    Object.assign(state, { finding: finding.id, asked: finding.forbidden ? null : finding, life: null, fault: null, pin: first === undefined ? -1 : first });
    look({ from: time - span / 2, to: time + span / 2 });
    if (first === undefined) panel.text(timeline.findingText(finding), [["#finding-" + finding.id, "Read finding " + finding.id]]); else panel.operation(first);
  }
  function showFault(fault) {
    if (!fault) return;
    Object.assign(state, { fault: fault.id, pin: -1, life: null });
    around(fault.start, fault.end);
    panel.text(timeline.faultText(fault), [["#fault-" + fault.id, "Read its receipt"]]);
  }
  function showLife(life, finding) {
    const times = life.events.map((event) => event.at).filter((at) => at !== null), sender = life.events.map((event) => index.positionOf.get(event.op)).find((i) => i !== undefined);
    Object.assign(state, { life, finding: finding.id, fault: null, asked: finding.forbidden ? null : finding, pin: sender === undefined ? -1 : sender });
    if (times.length) around(Math.min(...times), Math.max(...times));
    if (sender === undefined) panel.life(life); else panel.operation(sender, life);
    by("timeline").scrollIntoView();
    canvas.focus({ preventScroll: true });
  }
  function next(all, at, by) { // the next of those that the filter leaves, around in a ring
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
    if (record) { state.life = timeline.lifeOf(data, state.pin, record); panel.operation(state.pin, state.life); changed(); }
  }
  function clear() {
    state.asked = null;
    pin(-1);
  }

  // ------------------------------------------------------------------------------------- filter
  const box = by("filter");
  function filter(text) {
    const parsed = timeline.parsedFilter(text);
    state.filter = text.trim();
    state.chosen = timeline.filtered(data, parsed, index);
    timeline.filterCards(data, state.chosen.findings, () => { box.value = ""; filter(""); });
    by("filter-result").textContent = filterWords(parsed);
    if (box.value.trim() !== state.filter) box.value = state.filter;
    changed();
  }
  function filterWords({ tokens, unknown }) {
    const words = [], part = (mask, all, name) => mask.filter(Boolean).length.toLocaleString("en") + " of " + all.toLocaleString("en") + " " + name;
    const { operations, findings, faults } = state.chosen;
    if (tokens.length) words.push([part(operations, ops.index.length, data.total > ops.index.length ? "operations drawn" : "operations"), part(findings, data.findings.length, "findings"), part(faults, data.faults.length, "faults")].join(", ") + ".");
    if (unknown.length) words.push("Not understood: " + unknown.join(" ") + ". Known are " + timeline.FILTER_KEYS.map((key) => key + ":").join(" ") + ", and ok, fail, info.");
    return words.join(" ");
  }
  let typing = 0;
  box.addEventListener("input", () => {
    by("filter-words").replaceChildren(...timeline.completions(data, box.value).map((word) => Object.assign(document.createElement("option"), { value: word })));
    clearTimeout(typing);
    typing = setTimeout(() => filter(box.value), 150);
  });
  box.form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); filter(box.value); });
  by("filter-clear").addEventListener("click", () => { box.value = ""; filter(""); box.focus(); });

  // ----------------------------------------------------------------------------------- fragment
  let saving = 0, settled = false;
  function changed() {
    redraw();
    clearTimeout(saving);
    if (settled) saving = setTimeout(save, 250);
  }
  function save() {
    const far = Math.abs(state.view.from - whole.from) + Math.abs(state.view.to - whole.to) > 1;
    const text = timeline.encoded({ anchor: state.anchor, filter: state.filter, view: far ? state.view : undefined, op: state.pin < 0 ? undefined : ops.index[state.pin] });
    try {
      history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    } catch (refused) { } // a page without an address of its own cannot keep it
  }
  function restore(loading) {
    const asked = timeline.decoded(location.hash), op = /^op-(\d+)$/.exec(asked.anchor || "");
    state.anchor = asked.anchor || "";
    if (asked.filter !== undefined) {
      filter(asked.filter);
      look(asked.view || whole);
      if (asked.op !== undefined) pinIndex(asked.op); else if (!loading) pin(-1);
      if (asked.view) look(asked.view);
    } else if (op && !by(op[0])) pinIndex(Number(op[1]));
    const target = asked.filter !== undefined && asked.anchor && by(asked.anchor);
    if (target) arrive(target);
  }
  function pinIndex(op) {
    const i = index.positionOf.get(op);
    if (i !== undefined) { const { view } = state; pin(i); if (state.view === view && view.to - view.from > 1e7) around(ops.start[i], index.endOf(i)); }
    else by("selection").textContent = "Operation " + op + " is not on this page.";
  }
  function arrive(target) {
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", () => restore(false));

  // ------------------------------------------------------------------------------------ pointer
  const point = (event) => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    if (!painter.place) return;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); return look(timeline.panned(state.view, event.deltaX / 800)); }
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // else the page could not be scrolled past the chart
    event.preventDefault();
    look(timeline.zoomed(state.view, Math.pow(1.0018, event.deltaY), painter.timeAt(point(event)[0])));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { at: event.clientX, ...state.view, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!painter.place) return;
    if (drag) {
      drag.moved = drag.moved || Math.abs(event.clientX - drag.at) > 3;
      const shift = ((event.clientX - drag.at) / (painter.place.right - painter.place.left)) * (drag.to - drag.from);
      return drag.moved && look({ from: drag.from - shift, to: drag.to - shift });
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
    tip.style.top = (py + 18 + tip.offsetHeight > painter.place.height ? Math.max(4, py - tip.offsetHeight - 12) : py + 18) + "px";
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
    if (under.finding) return showFinding(under.finding);
    if (under.fault) return showFault(under.fault);
    pin(under.op === undefined ? -1 : under.op);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

  // ----------------------------------------------------------------------------- keys, buttons
  const keys = {
    ArrowLeft: () => stepOperation(-1), ArrowRight: () => stepOperation(1), ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1), Home: () => edge(-1), End: () => edge(1),
    "+": () => look(timeline.zoomed(state.view, 0.6, focus())), "=": () => look(timeline.zoomed(state.view, 0.6, focus())), "-": () => look(timeline.zoomed(state.view, 1.6, focus())), 0: whenShown,
    n: () => stepFinding(1), p: () => stepFinding(-1), f: () => stepFault(1), F: () => stepFault(-1), Enter: follow, Escape: clear, "/": () => box.focus(),
  };
  const shifted = { ArrowLeft: () => look(timeline.panned(state.view, -0.15)), ArrowRight: () => look(timeline.panned(state.view, 0.15)) };
  function focus() { // zooming keeps what is selected in view
    const { view, pin: i } = state, at = i < 0 ? NaN : (ops.start[i] + index.endOf(i)) / 2;
    return at > view.from && at < view.to ? at : undefined;
  }
  canvas.addEventListener("keydown", (event) => {
    const act = (event.shiftKey && shifted[event.key]) || (Object.hasOwn(keys, event.key) && keys[event.key]);
    if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act();
  });
  const buttons = { jump: () => showFinding(index.marked[0]), previous: () => stepFinding(-1), next: () => stepFinding(1), whole: whenShown, "zoom-in": () => look(timeline.zoomed(state.view, 0.5, focus())), "zoom-out": () => look(timeline.zoomed(state.view, 2, focus())) };
  for (const [id, act] of Object.entries(buttons)) by(id).addEventListener("click", act);
  for (const id of ["jump", "previous", "next"]) by(id).disabled = !index.marked.length;
  for (const link of document.querySelectorAll("[data-finding]"))
    link.addEventListener("click", () => showFinding(data.findings.find((finding) => String(finding.id) === link.dataset.finding)));

  timeline.addLives(data, showLife);
  restore(true);
  settled = true;
  draw();
})(globalThis.fencepostTimeline ??= {});
