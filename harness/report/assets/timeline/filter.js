"use strict";
// The filter box: `class:torn-transaction process:3 info`. Tokens of one key are alternatives, different keys must all hold.
(function (timeline) {
  const KEYS = ["class", "finding", "fault", "process", "op", "partition", "type", "role", "node", "f"];
  const OF_FINDINGS = ["class", "finding", "fault"];
  timeline.FILTER_KEYS = KEYS;

  // The tokens of a text: {tokens: [{key, value, not}], unknown: [text]}. A value may have stars: `class:lost*`.
  timeline.parsedFilter = function (text) {
    const tokens = [],
      unknown = [];
    for (const [word, minus, key, quoted, plain] of text.matchAll(/(-?)(?:([A-Za-z]+):)?(?:"([^"]*)"|(\S+))/g)) {
      const value = (quoted === undefined ? plain : quoted).toLowerCase(),
        name = (key || "").toLowerCase();
      if (!key && timeline.OUTCOMES.includes(value)) tokens.push({ key: "type", value, not: minus === "-" });
      else if (!KEYS.includes(name) || (name === "type" && !matches(value, timeline.OUTCOMES))) unknown.push(word);
      else
        for (const each of quoted === undefined ? value.split(",").filter(Boolean) : [value])
          tokens.push({ key: name, value: each, not: minus === "-" });
    }
    return { tokens, unknown };
  };

  const patterns = new Map();
  function pattern(value) {
    if (!patterns.has(value))
      patterns.set(value, new RegExp("^" + value.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*+/g, ".*") + "$", "s"));
    return patterns.get(value);
  }
  function matches(value, words) {
    const wanted = pattern(value);
    return words.some((word) => wanted.test(String(word).toLowerCase()));
  }

  // Whether words of each key satisfy the tokens; keys that `words` does not have are left to others.
  function satisfied(tokens, words) {
    const wanted = new Map();
    for (const token of tokens) {
      const values = words[token.key];
      if (values === undefined) continue;
      const hit = matches(token.value, values());
      if (token.not && hit) return false;
      if (!token.not) wanted.set(token.key, wanted.get(token.key) || hit);
    }
    return [...wanted.values()].every(Boolean);
  }

  const faultWords = (fault) => [fault.id, fault.kind, ...fault.label.split(/[\s,]+/)];
  const during = (faults, from, to) => faults.filter((fault) => fault.start <= to && fault.end >= from).flatMap(faultWords);

  // The words of an operation's own that tokens are compared with.
  function operationWords(data, i) {
    const ops = data.ops,
      row = data.rows[ops.row[i]];
    return {
      process: () => [ops.process[i]],
      op: () => [ops.index[i]],
      type: () => [timeline.OUTCOMES[ops.outcome[i]]],
      role: () => [row.role],
      node: () => [row.node],
      f: () => [ops.fs[ops.f[i]]],
      partition: () => partitionsOf(data, i),
    };
  }
  function partitionsOf(data, i) {
    const names = new Set();
    for (let m = 0; m < data.ops.count[i]; m++) names.add(data.partitions[data.records.where[data.ops.first[i] + m] >> 1]);
    return [...names];
  }

  // What a filter leaves: {operations, findings, faults}, a mask each (null where everything is left).
  timeline.filtered = function (data, filter, index) {
    if (!filter.tokens.length) return { operations: null, findings: null, faults: null };
    const { tokens } = filter;
    const operations = data.ops.index.map((_, i) => {
      const of = index.guilty.get(i) || [],
        from = data.ops.start[i];
      return satisfied(
        tokens,
        Object.assign(operationWords(data, i), {
          class: () => of.map((finding) => finding.anomaly),
          finding: () => of.map((finding) => finding.id),
          fault: () => during(data.faults, from, index.endOf(i)),
        }),
      );
    });
    const own = tokens.filter((token) => !OF_FINDINGS.includes(token.key));
    const findings = data.findings.map(
      (finding) => satisfied(tokens, findingWords(data, finding)) && anyOperation(data, finding, own, index),
    );
    const faults = data.faults.map((fault) => satisfied(tokens, { fault: () => faultWords(fault) }));
    return { operations, findings, faults };
  };
  function findingWords(data, finding) {
    const near = data.faults.filter((fault) => finding.faults.includes(fault.id)).flatMap(faultWords);
    return { class: () => [finding.anomaly], finding: () => [finding.id], fault: () => near };
  }
  // A finding is left where one of its operations satisfies the tokens about these; one without any here is not hidden.
  function anyOperation(data, finding, tokens, index) {
    const inside = finding.operations.map((op) => index.positionOf.get(op)).filter((position) => position !== undefined);
    return !tokens.length || !inside.length || inside.some((i) => satisfied(tokens, operationWords(data, i)));
  }

  // Texts that complete the last token: `process:3` for `proc`.
  timeline.completions = function (data, text, most = 40) {
    const [, before, last] = /^(.*?)(\S*)$/s.exec(text),
      [key, value] = last.replace(/^-/, "").split(":");
    const minus = last.startsWith("-") ? "-" : "";
    if (value === undefined)
      return [...KEYS.map((name) => name + ":"), ...timeline.OUTCOMES]
        .filter((word) => word.startsWith(key.toLowerCase()))
        .map((word) => before + minus + word);
    const words = [...new Set(vocabulary(data, key).map(String))].filter((word) =>
      word.toLowerCase().startsWith(value.toLowerCase()),
    );
    return words.slice(0, most).map((word) => before + minus + key + ":" + (/\s|,/.test(word) ? '"' + word + '"' : word));
  };
  function vocabulary(data, key) {
    const all = {
      class: () => data.findings.map((finding) => finding.anomaly),
      finding: () => data.findings.map((finding) => finding.id),
      fault: () => data.faults.flatMap((fault) => [fault.kind, fault.id]),
      process: () => data.rows.flatMap((row) => row.processes),
      op: () => [],
      partition: () => data.partitions,
      type: () => timeline.OUTCOMES,
      role: () => data.rows.map((row) => row.role),
      node: () => data.rows.map((row) => row.node).filter(Boolean),
      f: () => data.ops.fs,
    };
    return Object.hasOwn(all, key) ? all[key]() : [];
  }
})((globalThis.fencepostTimeline ??= {}));
