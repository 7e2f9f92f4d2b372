"use strict";
// The timeline on the page: its state, and what is drawn of it. Whatever comes from the run is drawn or set as text.
(function (timeline) {
  const source = document.getElementById("timeline-data");
  if (!source) return;
  const by = (id) => document.getElementById(id);
  const data = timeline.read(JSON.parse(source.textContent)),
    index = timeline.index(data),
    whole = timeline.wholeView(data.end);
  const state = { view: { ...whole }, pin: -1, finding: null, fault: null, asked: null, life: null, filter: "", anchor: "" };
  state.chosen = { operations: null, findings: null, faults: null };
  const canvas = by("canvas"),
    palette = timeline.palette(),
    painter = timeline.painter(canvas, data, index, palette);
  const page = { data, index, state, whole, canvas, painter, by, tip: by("tip"), changed };
  page.panel = timeline.panel(data, index, by("pinned"), by("selection"), {
    choose: (i, alive) => moves.pin(i, alive),
    live: (life, i) => {
      state.life = life;
      page.panel.operation(i, life);
      changed();
    },
  });
  const moves = timeline.moves(page),
    box = timeline.filterBox(page),
    address = timeline.address(page, moves, box.filter);
  const minimap = timeline.minimap(by("minimap"), data, palette, () => state.view, moves.look);
  const curves = timeline.curves(data, palette, by("curves"), moves.look);

  // ------------------------------------------------------------------------------------ drawing
  let waiting = false,
    settled = false;
  function changed() {
    redraw();
    if (settled) address.saveSoon();
  }
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }
  function draw() {
    if (!painter.draw(state)) return; // hidden, or without room: the observer below comes back to it
    const { left, width } = painter.place;
    minimap.draw(left);
    curves.draw(state.view, left, width);
  }
  function repaint() {
    palette.refresh();
    draw();
    curves.repaint();
  }
  function print(paper) {
    // a dark page is printed in light colours
    document.documentElement.classList.toggle("paper", paper);
    repaint();
  }
  new ResizeObserver(redraw).observe(by("figure"));
  window.addEventListener("resize", redraw);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  // ----------------------------------------------------------------------------- keys, buttons
  const keys = {
    ArrowLeft: () => moves.stepOperation(-1),
    ArrowRight: () => moves.stepOperation(1),
    ArrowUp: () => moves.stepRow(-1),
    ArrowDown: () => moves.stepRow(1),
    Home: () => moves.edge(-1),
    End: () => moves.edge(1),
    "+": () => moves.zoom(0.6),
    "=": () => moves.zoom(0.6),
    "-": () => moves.zoom(1.6),
    0: moves.showWhole,
    n: () => moves.stepFinding(1),
    p: () => moves.stepFinding(-1),
    f: () => moves.stepFault(1),
    F: () => moves.stepFault(-1),
    Enter: moves.follow,
    Escape: moves.clear,
    "/": box.focus,
  };
  const shifted = { ArrowLeft: () => moves.pan(-0.15), ArrowRight: () => moves.pan(0.15) };
  canvas.addEventListener("keydown", (event) => {
    const act = (event.shiftKey && shifted[event.key]) || (Object.hasOwn(keys, event.key) && keys[event.key]);
    if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act();
  });
  const buttons = {
    jump: () => moves.showFinding(index.marked[0]),
    previous: () => moves.stepFinding(-1),
    next: () => moves.stepFinding(1),
    whole: moves.showWhole,
    "zoom-in": () => moves.zoom(0.5),
    "zoom-out": () => moves.zoom(2),
  };
  for (const [id, act] of Object.entries(buttons)) by(id).addEventListener("click", act);
  for (const id of ["jump", "previous", "next"]) by(id).disabled = !index.marked.length;
  for (const link of document.querySelectorAll("[data-finding]")) {
    const finding = data.findings.find((each) => String(each.id) === link.dataset.finding);
    link.addEventListener("click", () => moves.showFinding(finding));
  }

  timeline.pointer(page, moves);
  timeline.addLives(data, moves.showLife);
  address.restore(true);
  settled = true;
  draw();
})((globalThis.fencepostTimeline ??= {}));
