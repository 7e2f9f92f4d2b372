"use strict";
// The panel below the chart: what is selected, its records, and the life of a record; and the same for screen readers.
(function (timeline) {
  const SHOWN = 24;
  const { seconds } = timeline;

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
  function button(text, act) {
    const made = element("button", text, { type: "button" });
    made.addEventListener("click", act);
    return made;
  }
  timeline.button = button;

  // `choose` selects an operation by its position; `live` shows a record's life.
  timeline.panel = function (data, index, panel, status, { choose, live }) {
    function show(parts, words) {
      const focused = panel.contains(document.activeElement); // on a button that goes away
      panel.replaceChildren(...parts);
      panel.hidden = !parts.length;
      if (focused) panel.focus({ preventScroll: true });
      status.textContent = words;
    }
    function operation(i, life) {
      const text = timeline.operationText(data, index.guilty, i),
        parts = [element("p", text, { class: "what" })];
      const of = index.guilty.get(i) || [];
      const anchor = "op-" + data.ops.index[i],
        own = [["#" + anchor, document.getElementById(anchor) ? "Read the operation in its card" : "Link to this operation"]];
      parts.push(links([...of.map((finding) => ["#finding-" + finding.id, "Read finding " + finding.id]), ...own]));
      parts.push(...records(i));
      if (life) parts.push(...lifeOf(life));
      show(parts, text.split("\n").join("; "));
    }
    function links(targets) {
      const line = element("p", "", { class: "links" });
      for (const [href, text] of targets) line.append(element("a", text, { href }), " ");
      return line;
    }
    function records(i) {
      const all = timeline.recordsOf(data, i);
      if (!all.length) return [];
      const line = element("p", "Follow a record: ", { class: "records-of" });
      for (const record of all.slice(0, SHOWN))
        line.append(
          button((record.read ? "read " : "send ") + timeline.placeName(data, record), () =>
            live(timeline.lifeOf(data, i, record), i),
          ),
          " ",
        );
      if (all.length > SHOWN) line.append("and " + (all.length - SHOWN) + " more");
      return [line];
    }
    function lifeOf(life) {
      const list = element("ol", "", { class: "life" });
      for (const event of life.events) {
        const item = element("li", "", { class: event.kind });
        item.append(element("span", event.at === null ? "" : seconds(event.at), { class: "when" }), " " + event.text + " ");
        const position = index.positionOf.get(event.op);
        if (position !== undefined) item.append(button("show", () => choose(position, true)));
        list.append(item);
      }
      const name = life.name === life.places[0] ? life.name : life.name + ", " + life.places.join(", ");
      return [element("h3", "The life of " + name), list, element("p", life.note, { class: "hint" })];
    }
    return {
      operation,
      nothing: () => show([], ""),
      text: (words, targets) => show([element("p", words, { class: "what" }), links(targets)], words.split("\n").join("; ")),
      life: (life) => show(lifeOf(life), "The life of " + life.name + ": " + life.events.map((event) => event.text).join("; ")),
    };
  };
})((globalThis.fencepostTimeline ??= {}));
