"use strict";
// The cards of findings, as the timeline touches them: hidden by the filter, and with the lives of their records.
(function (timeline) {
  const card = (finding) => {
    const at = document.getElementById("finding-" + finding.id);
    return at && (at.closest("article") || at);
  };

  // Hide every card none of whose findings the filter leaves, and say so above them.
  timeline.filterCards = function (data, chosen, clear) {
    const cards = new Map();
    data.findings.forEach((finding, at) => {
      const of = card(finding);
      if (of) cards.set(of, cards.get(of) || !chosen || chosen[at]);
    });
    let hidden = 0;
    for (const [of, shown] of cards) {
      of.hidden = !shown;
      hidden += !shown;
    }
    notice(hidden, clear);
  };
  function notice(hidden, clear) {
    const section = document.getElementById("findings");
    let line = document.getElementById("filtered-findings");
    if (!section || (!hidden && !line)) return;
    if (!line) {
      line = document.createElement("p");
      line.id = "filtered-findings";
      line.className = "notice";
      line.append(document.createElement("span"), " ", timeline.button("Clear the filter", clear));
      const heading = section.querySelector("h2");
      if (heading) heading.after(line);
      else section.prepend(line);
    }
    line.hidden = !hidden;
    line.firstChild.textContent =
      (hidden === 1 ? "1 card is" : hidden.toLocaleString("en") + " cards are") + " hidden by the timeline's filter.";
  }

  // Buttons in each card for the lives of its records; a card may be of several findings.
  timeline.addLives = function (data, live) {
    const cards = new Map();
    for (const finding of data.findings) {
      const of = card(finding);
      for (const life of of ? data.lives.filter((each) => each.findings.includes(finding.id)) : []) {
        if (!cards.has(of)) cards.set(of, new Map());
        if (!cards.get(of).has(life)) cards.get(of).set(life, finding);
      }
    }
    for (const [of, lives] of cards) {
      const line = document.createElement("p");
      line.className = "lives";
      line.append("Follow a record: ");
      for (const [life, finding] of lives)
        line.append(
          timeline.button(life.places.join(", "), () => live(timeline.computedLife(data, life), finding)),
          " ",
        );
      of.append(line);
    }
  };
})((globalThis.fencepostTimeline ??= {}));
