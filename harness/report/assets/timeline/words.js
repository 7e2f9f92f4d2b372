"use strict";
// What is under the pointer, or selected, in words.
(function (timeline) {
  const SHOWN = 6,
    NAMED = 12;
  const { seconds, duration } = timeline;

  timeline.operationText = function (data, guilty, i) {
    const { ops } = data,
      intent = ops.intents[ops.intent[i]],
      row = data.rows[ops.row[i]];
    const took = ops.length[i] < 0 ? "never completed" : "took " + duration(ops.length[i]);
    const lines = [
      ops.fs[ops.f[i]] + (intent ? " (" + intent + ")" : "") + ": " + timeline.OUTCOMES[ops.outcome[i]],
      [row.node || row.label, "process " + ops.process[i], "op " + ops.op[i] + " (operation " + ops.index[i] + ")"].join(", "),
      "at " + seconds(ops.start[i]) + ", " + took,
    ];
    lines.push(...recordLines(data, i));
    for (const error of data.errors[i] || []) lines.push("error: " + error.filter(Boolean).join(" → "));
    const of = guilty.get(i);
    if (of)
      lines.push("part of finding " + of.map((finding) => finding.id + (finding.forbidden ? "" : " (permitted)")).join(", "));
    return lines.join("\n");
  };
  function recordLines(data, i) {
    if (data.ops.count[i] < 0) return ["its records are in the history: of so many operations not all have them here"];
    const records = timeline.recordsOf(data, i),
      names = data.values[i] || [];
    if (!records.length) return [];
    const words = records
      .slice(0, SHOWN)
      .map(
        (record, m) => (record.read ? "read " : "send ") + timeline.placeName(data, record) + (names[m] ? " = " + names[m] : ""),
      );
    return [words.join(", ") + (records.length > SHOWN ? " and " + (records.length - SHOWN) + " more" : "")];
  }

  timeline.faultText = (fault) =>
    fault.label + "\nfrom " + seconds(fault.start) + " to " + seconds(fault.end) + (fault.remark ? "\n" + fault.remark : "");
  timeline.findingText = (finding) => finding.anomaly + " at " + seconds(finding.time) + "\n" + finding.sentence;
  timeline.rowText = function (row) {
    const named = row.processes.slice(0, NAMED),
      more = row.processes.length - named.length + row.more;
    const processes = "processes " + named.join(", ") + (more ? " and " + more + " more" : "");
    return [row.label, row.role, row.processes.length > 1 ? processes : ""].filter(Boolean).join("\n");
  };

  // What a broker is known to have been at a time.
  timeline.brokerText = function (data, broker, time, slack) {
    const lines = [broker.node],
      near = broker.sought.filter(([at]) => Math.abs(at - time) <= slack);
    for (const [from, to, , text] of broker.held) if (from <= time && time < to) lines.push(text);
    for (const [at, role] of near) lines.push(role + ", when a fault looked for it at " + seconds(at));
    for (const fault of data.faults)
      if (broker.faults.includes(fault.id) && fault.start - slack <= time && time <= fault.end + slack)
        lines.push(timeline.faultText(fault));
    if (lines.length === 1) lines.push("nothing says what it was at " + seconds(time));
    return lines.join("\n");
  };
})((globalThis.fencepostTimeline ??= {}));
