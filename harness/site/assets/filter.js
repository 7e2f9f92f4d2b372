"use strict";
// The filter of runs: words and `key:value` terms in one line, which is kept in the page's fragment.
(function () {
  const KEYS = {
    test: (row) => row.test, campaign: (row) => row.campaign, verdict: (row) => row.verdict, anomaly: (row) => row.anomalies,
    version: (row) => "kafka " + row.kafka + "\n" + row.client, kafka: (row) => row.kafka, client: (row) => row.client,
    workload: (row) => row.workload, cluster: (row) => row.cluster, round: (row) => row.round, run: (row) => row.run,
    seed: (row) => String(row.seed), fingerprint: (row) => row.fingerprints, standing: (row) => row.standing,
    protocol: (row) => row.protocol,
  };
  const LISTS = { anomaly: ", ", fingerprint: " ", version: "\n" };
  const TERM = /(-?)([a-z]+)([:=])("(?:[^"\\]|\\.)*"?|\S*)|(-?)("(?:[^"\\]|\\.)*"?|\S+)/g;

  function unquoted(text) {
    return text.startsWith('"') ? text.slice(1).replace(/"$/, "").replace(/\\(.)/g, "$1") : text;
  }

  site.quoted = (text) => '"' + text.replace(/[\\"]/g, "\\$&") + '"';

  // The terms of a line: { key, exact, value, not, source }; key is empty for words that may stand anywhere.
  site.terms = function (line) {
    const terms = [];
    for (const [source, notTerm, key, sign, value, notWord, word] of line.matchAll(TERM))
      if (key && (key in KEYS || key === "since" || key === "until" || key === "is"))
        terms.push({ key, exact: sign === "=", value: unquoted(value), not: !!notTerm, source });
      else terms.push({ key: "", value: unquoted(word || source.replace(/^-/, "")), not: !!(notWord || notTerm), source });
    return terms;
  };

  function text(row) {
    if (row.text === undefined)
      row.text = [row.place, row.run, row.campaign, row.test, row.label, row.outcome, row.anomalies, row.cause, row.kafka, row.client, row.protocol,
        row.workload, row.cluster, row.seed, row.standing].join("\n").toLowerCase();
    return row.text;
  }

  function holds(term) {
    const value = term.value.toLowerCase();
    if (!value && !term.exact) return () => true;
    if (term.key === "") return (row) => text(row).includes(value);
    if (term.key === "since") return (row) => row.created >= term.value;
    if (term.key === "until") return (row) => row.created.slice(0, term.value.length) <= term.value;
    if (term.key === "is") return { red: (row) => row.red, new: (row) => row.standing === "new" }[value] || (() => false);
    const of = KEYS[term.key];
    if (!term.exact) return (row) => (of(row) || "").toLowerCase().includes(value);
    const between = LISTS[term.key];
    return (row) => (between ? (of(row) || "").split(between) : [of(row)]).includes(term.value);
  }

  // The rows for which every term of the line holds.
  site.filtered = function (rows, line) {
    const conditions = site.terms(line).map((term) => ({ holds: holds(term), not: term.not }));
    return rows.filter((row) => conditions.every((condition) => !!condition.holds(row) !== condition.not));
  };

  // The line with another value of a key; without the key when there is none.
  site.withTerm = function (line, key, value) {
    const others = site.terms(line).filter((term) => term.key !== key).map((term) => term.source);
    return [...others, ...(value ? [key + (key === "is" || key === "since" ? ":" + value : "=" + site.quoted(value))] : [])].join(" ");
  };

  site.termOf = (line, key) => (site.terms(line).find((term) => term.key === key && !term.not) || { value: "" }).value;
})();
