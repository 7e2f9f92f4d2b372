"use strict";
// The filter box: what is typed, what it leaves, and how many that is.
(function (timeline) {
  timeline.filterBox = function (page) {
    const { data, index, state, by } = page,
      { ops } = data;
    const box = by("filter");
    function filter(text) {
      const parsed = timeline.parsedFilter(text);
      state.filter = text.trim();
      state.chosen = timeline.filtered(data, parsed, index);
      timeline.filterCards(data, state.chosen.findings, () => {
        box.value = "";
        filter("");
      });
      by("filter-result").textContent = filterWords(parsed);
      if (box.value.trim() !== state.filter) box.value = state.filter;
      page.changed();
    }
    function filterWords({ tokens, unknown }) {
      const words = [],
        part = (mask, all, name) =>
          mask.filter(Boolean).length.toLocaleString("en") + " of " + all.toLocaleString("en") + " " + name;
      const { operations, findings, faults } = state.chosen;
      if (tokens.length)
        words.push(
          [
            part(operations, ops.index.length, data.total > ops.index.length ? "operations drawn" : "operations"),
            part(findings, data.findings.length, "findings"),
            part(faults, data.faults.length, "faults"),
          ].join(", ") + ".",
        );
      if (unknown.length)
        words.push(
          "Not understood: " +
            unknown.join(" ") +
            ". Known are " +
            timeline.FILTER_KEYS.map((key) => key + ":").join(" ") +
            ", and ok, fail, info.",
        );
      return words.join(" ");
    }
    let typing = 0;
    box.addEventListener("input", () => {
      by("filter-words").replaceChildren(
        ...timeline.completions(data, box.value).map((word) => Object.assign(document.createElement("option"), { value: word })),
      );
      clearTimeout(typing);
      typing = setTimeout(() => filter(box.value), 150);
    });
    box.form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(typing);
      filter(box.value);
    });
    by("filter-clear").addEventListener("click", () => {
      box.value = "";
      filter("");
      box.focus();
    });
    return { filter, focus: () => box.focus() };
  };
})((globalThis.fencepostTimeline ??= {}));
