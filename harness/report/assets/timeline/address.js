"use strict";
// The page's address keeps filter, zoom and selection, and brings them back.
(function (timeline) {
  timeline.address = function (page, moves, filter) {
    const { data, index, state, whole, by } = page,
      { ops } = data;
    let saving = 0,
      known = ""; // the address as it was last saved or restored
    // The address follows a little later, since browsers refuse many changes at once.
    function saveSoon() {
      clearTimeout(saving);
      saving = setTimeout(save, 250);
    }
    function save() {
      if (location.hash !== known) return; // a link was followed, and its event has not come yet
      const far = Math.abs(state.view.from - whole.from) + Math.abs(state.view.to - whole.to) > 1;
      const text = timeline.encoded({
        anchor: state.anchor,
        filter: state.filter,
        view: far ? state.view : undefined,
        op: state.pin < 0 ? undefined : ops.index[state.pin],
      });
      try {
        history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
      } catch (refused) {} // a page without an address of its own cannot keep it
      known = location.hash;
    }
    function restore(loading) {
      clearTimeout(saving); // a plain anchor stays as it was followed
      known = location.hash;
      const asked = timeline.decoded(known),
        op = /^op-(\d+)$/.exec(asked.anchor || "");
      state.anchor = asked.anchor || "";
      if (asked.filter !== undefined) {
        filter(asked.filter);
        moves.look(asked.view || whole);
        if (asked.op !== undefined) pinIndex(asked.op);
        else if (!loading) moves.pin(-1);
        if (asked.view) moves.look(asked.view);
      } else if (op && !by(op[0])) pinIndex(Number(op[1]));
      const target = asked.filter !== undefined && asked.anchor && by(asked.anchor);
      if (target) arrive(target);
    }
    function pinIndex(op) {
      const i = index.positionOf.get(op);
      if (i !== undefined) {
        const { view } = state;
        moves.pin(i);
        if (state.view === view && view.to - view.from > 1e7) moves.around(ops.start[i], index.endOf(i));
      } else by("selection").textContent = "Operation " + op + " is not on this page.";
    }
    function arrive(target) {
      for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      target.scrollIntoView();
    }
    window.addEventListener("hashchange", () => restore(false));
    return { saveSoon, restore };
  };
})((globalThis.fencepostTimeline ??= {}));
