"use strict";
// The table of runs: filtered and sorted by the fragment, drawn in windows, walked through by keyboard.
(function () {
  const table = document.getElementById("runs");
  if (!table) return;
  const body = table.tBodies[0], input = document.getElementById("filter"), count = document.getElementById("count");
  const chosenBar = document.getElementById("chosen"), chosenText = document.getElementById("chosen-text");
  const compareLink = document.getElementById("compare-link");
  const TONES = ["bad", "unsure", "none", "shown", "good"], MARGIN = 12, ON_PAPER = 1000;
  const SORTS = {
    verdict: (row) => Math.min(TONES.indexOf(row.tone), TONES.indexOf("shown")), test: (row) => row.campaign + "\0" + row.test, found: (row) => row.anomalies || "\uffff",
    versions: (row) => row.kafka + "\0" + row.client, rate: (row) => row.rate, created: (row) => row.created,
  };
  const DESCENDING = new Set(["created", "rate"]); // at the first click
  let rows = site.rows(site.data("runs-data")), shown = [], tops = [0], active = -1, printing = false;
  const drawn = new Map(), state = { q: "", sort: "verdict", a: "", b: "" };

  // ---------------------------------------------------------------------------------------------- state
  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(state)) state[name] = given.get(name) || (name === "sort" ? "verdict" : "");
    if (!(state.sort.replace(/^-/, "") in SORTS)) state.sort = "verdict";
    if (document.activeElement !== input) input.value = state.q;
    select();
    draw();
  }

  function write() {
    const kept = Object.entries(state).filter(([name, value]) => value && !(name === "sort" && value === "verdict"));
    history.replaceState(null, "", "#" + new URLSearchParams(kept));
    select();
    draw();
  }

  function compared(of, descending) {
    return (one, other) => {
      const a = of(one), b = of(other);
      if (a === null || b === null) return (a === null) - (b === null);
      if (a !== b) return (a < b ? -1 : 1) * (descending ? -1 : 1);
      return one.created < other.created ? 1 : one.created > other.created ? -1 : 0;
    };
  }

  function select() {
    const name = state.sort.replace(/^-/, "");
    const before = active >= 0 && shown[active] ? shown[active].place : "";
    shown = site.filtered(rows, state.q).sort(compared(SORTS[name], state.sort.startsWith("-")));
    active = before ? shown.findIndex((row) => row.place === before) : -1;
    measure();
    for (const element of drawn.values()) element.remove();
    drawn.clear();
    for (const head of table.querySelectorAll("th[data-sort]")) {
      const mine = head.dataset.sort === name;
      head.setAttribute("aria-sort", !mine ? "none" : state.sort.startsWith("-") ? "descending" : "ascending");
    }
    const red = shown.filter((row) => row.red).length;
    count.textContent = `${number(shown.length)} of ${number(rows.length)} runs` + (red ? `, ${number(red)} to look at` : "");
    table.setAttribute("aria-rowcount", shown.length + 1);
    document.getElementById("none").hidden = shown.length > 0;
    controls();
    choice();
  }

  const number = (value) => value.toLocaleString("en-US");

  // ---------------------------------------------------------------------------------------------- window
  function measure() {
    const style = getComputedStyle(table);
    const heights = Object.fromEntries(["tall", "short", "plain"].map((name) => [name, parseFloat(style.getPropertyValue("--" + name))]));
    tops = new Float64Array(shown.length + 1);
    for (let i = 0; i < shown.length; i++) tops[i + 1] = tops[i] + heights[kind(shown[i])];
  }

  // A row's height follows from what it has, so that rows which are not drawn have theirs, too.
  const kind = (row) => (row.red ? "tall" : row.cause || row.anomalies ? "short" : "plain");

  function rowAt(y) {
    let low = 0, high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function draw() {
    const top = -body.getBoundingClientRect().top;
    let first = Math.max(0, rowAt(top) - MARGIN), last = Math.min(shown.length, rowAt(top + window.innerHeight) + MARGIN);
    if (printing) [first, last] = [0, Math.min(shown.length, ON_PAPER)];
    for (const [index, element] of drawn)
      if ((index < first || index >= last) && !element.contains(document.activeElement)) {
        element.remove();
        drawn.delete(index);
      }
    const wanted = new Set(drawn.keys());
    for (let index = first; index < last; index++) wanted.add(index);
    const order = [...wanted].sort((a, b) => a - b), children = [];
    let at = 0;
    for (const index of order) {
      if (index > at) children.push(spacer(tops[index] - tops[at]));
      if (!drawn.has(index)) drawn.set(index, line(shown[index], index));
      children.push(drawn.get(index));
      at = index + 1;
    }
    if (at < shown.length && !printing) children.push(spacer(tops[shown.length] - tops[at]));
    if (children.length !== body.children.length || children.some((child, i) => child !== body.children[i])) place(children);
    mark();
  }

  // The elements in this order, without taking the focused one out of the page.
  function place(children) {
    for (const old of [...body.children]) if (!children.includes(old)) old.remove();
    children.forEach((child, i) => { if (body.children[i] !== child) body.insertBefore(child, body.children[i] || null); });
  }

  function spacer(height) {
    const made = site.element("tr", { class: "spacer", "aria-hidden": "true" }, site.element("td", { colspan: 7 }));
    made.firstChild.style.height = height + "px";
    return made;
  }

  // ---------------------------------------------------------------------------------------------- rows
  function line(row, index) {
    const box = site.element("input", { type: "checkbox", "aria-label": `compare run ${row.run}` });
    box.checked = row.place === state.a || row.place === state.b;
    box.addEventListener("change", () => choose(row));
    const report = site.reportOf(row);
    const made = site.element("tr", { class: `${row.tone}${row.red ? " red" : ""}${" " + kind(row)}`, "aria-rowindex": index + 2 },
      site.element("td", { class: "pick" }, box),
      site.element("td", { class: "outcome-cell" }, badge(row), standing(row)),
      site.element("th", { scope: "row" },
        report ? site.element("a", { href: report, class: "main" }, row.test || "(no test)") :
          site.element("span", { class: "main", title: row.lack }, row.test || "(no test)"),
        site.element("span", { class: "sub" },
          row.campaign ? row.campaign + " · " : "", site.element("a", { href: site.up + row.page }, "history"),
          row.red || row.tone === "shown" ? [" · ", site.element("a", { href: "#", class: "last-good" }, "compare")] : "")),
      site.element("td", { class: "found" }, cause(row)),
      site.element("td", { class: "versions" }, versions(row)),
      site.element("td", { class: "num rate" }, row.rate === null ? "" : row.rate >= 10 ? number(Math.round(row.rate)) : row.rate.toFixed(1)),
      site.element("td", { class: "when" }, site.element("span", {}, row.created.slice(0, 16).replace("T", " ")),
        site.element("span", { class: "sub" }, `run ${row.run}`, row.seed === null ? "" : ` · seed ${row.seed}`)));
    const link = made.querySelector(".last-good");
    if (link) compareWithGood(link, row);
    return made;
  }

  function compareWithGood(link, row) {
    link.title = "with the last run of this test that was as expected";
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const before = site.predecessor(rows, row);
      location.href = site.compareOf(row.place, before && before.place);
    });
  }

  const badge = (row) => site.element("span", { class: "tone " + row.tone }, row.outcome);
  const standing = (row) => row.standing && site.element("span", { class: "standing " + row.standing, title: row.standing_words }, row.standing);

  function cause(row) {
    const names = row.anomalies ? row.anomalies.split(", ") : [];
    const chips = names.slice(0, 4).map((name) => site.element("code", {}, name));
    const more = names.length > 4 ? site.element("span", { class: "sub" }, ` and ${names.length - 4} more`) : null;
    const sentence = row.cause && site.element("p", { title: row.cause }, row.cause);
    const lack = row.lack && !row.report && row.verdict ? site.element("p", { class: "sub" }, row.lack) : null;
    return site.element("div", {}, chips.length ? site.element("span", { class: "chips" }, ...chips, more) : null, sentence, lack);
  }

  function versions(row) {
    const made = document.createDocumentFragment();
    if (row.kafka) made.append(site.element("span", {}, "Kafka " + row.kafka));
    made.append(site.element("span", { class: "sub" }, [row.client, row.protocol].filter(Boolean).join(" · ")));
    return made;
  }

  // ---------------------------------------------------------------------------------------------- choice of two
  function choose(row) {
    if (state.a === row.place) [state.a, state.b] = [state.b, ""];
    else if (state.b === row.place) state.b = "";
    else if (!state.a) state.a = row.place;
    else state.b = row.place;
    for (const [index, element] of drawn)
      element.querySelector("input").checked = shown[index].place === state.a || shown[index].place === state.b;
    const kept = Object.entries(state).filter(([name, value]) => value && !(name === "sort" && value === "verdict"));
    history.replaceState(null, "", "#" + new URLSearchParams(kept));
    choice();
  }

  function choice() {
    const named = (place) => (rows.find((row) => row.place === place) || { run: "?" }).run;
    chosenBar.hidden = !state.a;
    if (!state.a) return;
    chosenText.textContent = state.b ? `Run ${named(state.a)} and run ${named(state.b)}` : `Run ${named(state.a)}: choose another one to compare`;
    compareLink.hidden = !state.b;
    compareLink.href = site.compareOf(state.a, state.b);
  }

  // ---------------------------------------------------------------------------------------------- controls
  function controls() {
    document.getElementById("red").checked = site.termOf(state.q, "is") === "red";
    for (const chooser of document.querySelectorAll("select[data-key]")) chooser.value = site.termOf(state.q, chooser.dataset.key);
    document.getElementById("since").value = site.termOf(state.q, "since");
  }

  function options() {
    const values = {
      campaign: (row) => [row.campaign], test: (row) => [row.test], verdict: (row) => [row.verdict],
      anomaly: (row) => (row.anomalies ? row.anomalies.split(", ") : []), version: (row) => [row.kafka && "kafka " + row.kafka, row.client],
    };
    for (const chooser of document.querySelectorAll("select[data-key]")) {
      const found = new Set(rows.flatMap(values[chooser.dataset.key]).filter(Boolean));
      const kept = chooser.firstElementChild;
      chooser.replaceChildren(kept, ...[...found].sort().map((value) => site.element("option", { value }, value)));
    }
  }

  function setTerm(key, value) {
    state.q = site.withTerm(state.q, key, value);
    input.value = state.q;
    write();
  }

  input.addEventListener("input", () => { state.q = input.value; write(); });
  document.getElementById("red").addEventListener("change", (event) => setTerm("is", event.target.checked ? "red" : ""));
  document.getElementById("since").addEventListener("change", (event) => setTerm("since", event.target.value));
  for (const chooser of document.querySelectorAll("select[data-key]"))
    chooser.addEventListener("change", () => setTerm(chooser.dataset.key, chooser.value));
  document.getElementById("clear").addEventListener("click", () => { state.q = input.value = ""; state.sort = "verdict"; write(); });
  document.getElementById("unchoose").addEventListener("click", () => { state.a = state.b = ""; write(); });
  for (const head of table.querySelectorAll("th[data-sort] button"))
    head.addEventListener("click", () => {
      const name = head.parentElement.dataset.sort, first = (DESCENDING.has(name) ? "-" : "") + name;
      state.sort = state.sort === first ? (first.startsWith("-") ? name : "-" + name) : first;
      write();
    });

  // ---------------------------------------------------------------------------------------------- keyboard
  function mark() {
    for (const [index, element] of drawn) element.classList.toggle("active", index === active);
  }

  function move(to) {
    if (!shown.length) return;
    active = Math.max(0, Math.min(shown.length - 1, to));
    const top = body.getBoundingClientRect().top, y = top + tops[active], margin = 120;
    if (y < margin) window.scrollBy({ top: y - margin, behavior: "instant" });
    else if (top + tops[active + 1] > window.innerHeight - margin / 2)
      window.scrollBy({ top: top + tops[active + 1] - window.innerHeight + margin / 2, behavior: "instant" });
    draw();
    const focused = drawn.get(active);
    if (focused) (focused.querySelector("a.main") || focused.querySelector("input")).focus({ preventScroll: true });
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing) return;
    const actions = {
      "/": () => { input.focus(); input.select(); }, j: () => move(active + 1), k: () => move(active - 1),
      x: () => { if (active >= 0) choose(shown[active]); },
      c: () => { if (state.a && state.b) location.href = compareLink.href; },
      r: () => setTerm("is", site.termOf(state.q, "is") === "red" ? "" : "red"),
    };
    if (event.key in actions) {
      event.preventDefault();
      actions[event.key]();
    }
  });
  body.addEventListener("focusin", (event) => {
    for (const [index, element] of drawn) if (element.contains(event.target)) active = index;
    mark();
  });

  // ---------------------------------------------------------------------------------------------- life
  let asked = false;
  function soon() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }
  window.addEventListener("scroll", soon, { passive: true });
  window.addEventListener("resize", () => { measure(); soon(); });
  window.addEventListener("hashchange", read);
  window.addEventListener("beforeprint", () => { printing = true; draw(); });
  window.addEventListener("afterprint", () => { printing = false; draw(); });
  site.replaceRuns = (packed) => { rows = site.rows(packed); options(); select(); draw(); };

  options();
  read();
  document.documentElement.dataset.ready = "true";
})();
