"use strict";
// Two runs side by side: what differs first, what is alike folded below.
(function () {
  const place = document.getElementById("compared");
  if (!place) return;
  const rows = site.rows(site.data("runs-data")), settings = site.data("settings-data"), findings = site.data("findings-data");
  rows.forEach((row, index) => { row.index = index; });
  const inputs = { a: document.getElementById("a"), b: document.getElementById("b") }, problem = document.getElementById("problem");
  const good = document.getElementById("good"), swap = document.getElementById("swap");
  const newest = [...rows].sort((a, b) => (a.created < b.created ? 1 : -1));

  // The run that a text means: a directory, an id, the beginning of one; the newest of several.
  function find(text) {
    const words = text.trim();
    if (!words) return null;
    return rows.find((row) => row.place === words) || rows.find((row) => row.run === words) ||
      newest.find((row) => row.run.startsWith(words) || row.place.split("/").pop().startsWith(words)) || null;
  }

  // ---------------------------------------------------------------------------------------------- parts
  // A part is [title, lines]; a line is [name, text of A, text of B, note], and whether it is alike where the texts do not say:
  // a finding of one fingerprint is, whatever its records are.
  const number = (value, unit) => (value === null || value === undefined ? "–" : (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(+value.toPrecision(3))) + (unit || ""));

  function measured(name, key, unit, a, b) {
    const both = a[key] !== null && b[key] !== null && a[key] > 0;
    const note = both && b[key] !== a[key] ? `B is ${(b[key] / a[key]).toPrecision(3)} of A` : "";
    return [name, number(a[key], unit), number(b[key], unit), note];
  }

  function parts(a, b) {
    const text = (name, key) => [name, a[key] === null ? "–" : String(a[key]) || "–", b[key] === null ? "–" : String(b[key]) || "–", ""];
    return [
      ["Outcome", [text("verdict", "outcome"), text("anomalies", "anomalies"), text("cause", "cause"), text("standing", "standing_words")]],
      ["Versions", [text("Kafka", "kafka"), text("client", "client"), text("protocol", "protocol")]],
      ["Test", [text("test", "test"), text("campaign", "campaign"), text("workload", "workload"), text("cluster", "cluster"), text("seed", "seed"), text("round", "label")]],
      ["Findings", findingLines(a, b)],
      ["Rates", [measured("operations per second", "rate", "", a, b), measured("operations", "operations", "", a, b), measured("faults", "faults", "", a, b),
        measured("longest stall", "gap_s", " s", a, b), measured("recovery", "recovery_s", " s", a, b)]],
      ["Settings", settingLines(a, b)],
    ];
  }

  function findingLines(a, b) {
    const of = (row) => new Map(findings.of[row.index].map(([mark, anomaly, sentence, id, count]) =>
      [mark, { anomaly: findings.texts[anomaly], sentence: findings.texts[sentence], id, count }]));
    const [inA, inB] = [of(a), of(b)];
    return [...new Set([...inA.keys(), ...inB.keys()])].map((mark) => {
      const [one, other] = [inA.get(mark), inB.get(mark)];
      const text = (finding) => (finding ? `${finding.count} × ${finding.sentence}` : "not found");
      const note = one && other ? "in both" : one ? "only A" : "only B";
      return [(one || other).anomaly, text(one), text(other), note, !!(one && other)];
    });
  }

  function settingsOf(row) {
    const at = settings.of[row.index];
    if (at < 0) return null;
    const list = settings.lists[at], of = new Map();
    for (let i = 0; i < list.length; i += 2) of.set(settings.names[list[i]], settings.values[list[i + 1]]);
    return of;
  }

  function settingLines(a, b) {
    const [inA, inB] = [settingsOf(a), settingsOf(b)];
    if (!inA || !inB) {
      const which = !inA && !inB ? "Neither run's" : `Run ${(inA ? b : a).run}'s`;
      const why = settings.of[(inA ? b : a).index] === -2 ? "settings are behind the bound of this page: its plan.json has them" : "plan.json could not be read";
      return [["settings", `${which} ${why}`, "", ""]];
    }
    return [...new Set([...inA.keys(), ...inB.keys()])].map((name) => [name, inA.has(name) ? inA.get(name) : "not set", inB.has(name) ? inB.get(name) : "not set", ""]);
  }

  // ---------------------------------------------------------------------------------------------- tables
  function table(parted, label, a, b) {
    const head = site.element("thead", {}, site.element("tr", {}, site.element("th", { scope: "col" }, label), runHead("A", a), runHead("B", b)));
    const bodies = parted.map(([title, lines]) => site.element("tbody", { class: "part of-" + title.toLowerCase() },
      site.element("tr", {}, site.element("th", { colspan: 3, scope: "rowgroup" }, title)),
      lines.map(([name, one, other, note]) => site.element("tr", {}, site.element("th", { scope: "row" }, name, note ? site.element("span", { class: "more-or-less" }, note) : ""),
        site.element("td", {}, one), site.element("td", {}, other)))));
    return site.element("div", { class: "scroll" }, site.element("table", { class: "pair" }, site.element("colgroup", {}, ["c-name", "", ""].map((name) => site.element("col", { class: name }))), head, bodies));
  }

  function runHead(letter, row) {
    const report = site.reportOf(row);
    return site.element("th", { scope: "col", class: row.tone }, `${letter}: `, report ? site.element("a", { href: report }, `run ${row.run}`) : `run ${row.run}`,
      site.element("span", { class: "sub" }, ` ${row.created.slice(0, 16).replace("T", " ")}`), site.element("br", {}), site.element("span", { class: "tone " + row.tone }, row.outcome));
  }

  function show(a, b) {
    const all = parts(a, b), alike = (line) => (line.length > 4 ? line[4] : line[1] === line[2]);
    const split = (wanted) => all.map(([title, lines]) => [title, lines.filter((line) => alike(line) === wanted)]).filter(([, lines]) => lines.length);
    const differing = split(false), same = split(true), count = (of) => of.reduce((sum, [, lines]) => sum + lines.length, 0);
    const fold = site.element("details", { class: "block" }, site.element("summary", {}, `${count(same)} things are alike`), table(same, "Alike", a, b));
    place.replaceChildren(site.element("h2", {}, differing.length ? `What differs: ${count(differing)}` : "Nothing that the site knows differs"),
      ...(differing.length ? [table(differing, "What differs", a, b)] : []), fold);
  }

  // ---------------------------------------------------------------------------------------------- state
  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of ["a", "b"]) if (document.activeElement !== inputs[name]) inputs[name].value = given.get(name) || "";
    const a = find(inputs.a.value), before = a && !given.has("b") && site.predecessor(rows, a);
    if (before) inputs.b.value = before.place;
    draw();
  }

  function draw() {
    const a = find(inputs.a.value), b = find(inputs.b.value);
    const unknown = ["a", "b"].filter((name) => inputs[name].value.trim() && !(name === "a" ? a : b)).map((name) => inputs[name].value.trim());
    problem.textContent = unknown.length ? `No run “${unknown.join("”, “")}” is in this site.` : a && b ? "" : "Name two runs here, or choose them in the table of runs.";
    good.hidden = !a;
    swap.hidden = !(a && b);
    if (a && b) show(a, b);
    else place.replaceChildren();
  }

  function write() {
    history.replaceState(null, "", "#" + new URLSearchParams(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]).filter(([, value]) => value)));
    draw();
  }

  for (const input of Object.values(inputs)) input.addEventListener("input", write);
  document.querySelector("form.choose").addEventListener("submit", (event) => event.preventDefault());
  good.addEventListener("click", () => {
    const a = find(inputs.a.value), before = a && site.predecessor(rows, a);
    if (before) inputs.b.value = before.place;
    else problem.textContent = `Before run ${a.run} there is none of this test.`;
    if (before) write();
  });
  swap.addEventListener("click", () => { [inputs.a.value, inputs.b.value] = [inputs.b.value, inputs.a.value]; write(); });
  window.addEventListener("hashchange", read);
  window.addEventListener("beforeprint", () => { for (const fold of place.querySelectorAll("details")) fold.open = true; });
  read();
  document.documentElement.dataset.ready = "true";
})();
