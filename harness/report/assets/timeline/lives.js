"use strict";
// A record's life: of a finding's records as the harness computed it from the whole history, of others what this page has.
(function (timeline) {
  // The records of an operation: [{read, partition, offset}].
  timeline.recordsOf = function (data, i) {
    const records = [];
    for (let m = data.ops.first[i]; m < data.ops.first[i] + Math.max(0, data.ops.count[i]); m++)
      records.push({
        read: data.records.where[m] % 2 === 1,
        partition: data.records.where[m] >> 1,
        offset: data.records.offset[m],
      });
    return records;
  };
  timeline.placeName = (data, record) => data.partitions[record.partition] + "@" + (record.offset < 0 ? "?" : record.offset);

  // The life of a record of an operation: {name, events: [{at, kind, text, op}], whole, note}. `op` is an operation's index.
  timeline.lifeOf = function (data, i, record) {
    return computed(data, i, record) || gathered(data, i, record);
  };

  // `whole`: nothing of it is missing.
  timeline.computedLife = (data, life) => ({
    name: life.name,
    places: life.places,
    whole: true,
    note: "Computed from the whole history.",
    events: life.events.map(([at, kind, text, op]) => ({ at, kind, text, op })),
  });
  function computed(data, i, record) {
    const name = timeline.placeName(data, record),
      index = data.ops.index[i];
    const life = data.lives.find(
      (each) =>
        each.events.some((event) => event[3] === index) &&
        (each.places.includes(name) || each.events.some((event) => event[3] === index && event[2].includes(" " + name + " "))),
    );
    return life && timeline.computedLife(data, life);
  }

  function gathered(data, i, record) {
    const { ops } = data,
      name = timeline.placeName(data, record),
      events = [];
    if (record.offset < 0)
      return {
        name,
        places: [name],
        events: sendEvents(data, i),
        whole: false,
        note: "Its offset is not known, so its reads cannot be told from others' here.",
      };
    for (let other = 0; other < ops.index.length; other++)
      for (let m = ops.first[other]; m < ops.first[other] + Math.max(0, ops.count[other]); m++)
        if (data.records.offset[m] === record.offset && data.records.where[m] >> 1 === record.partition)
          events.push(...(data.records.where[m] % 2 ? [readEvent(data, other)] : sendEvents(data, other)));
    events.sort((a, b) => a.at - b.at);
    let reads = 0;
    for (const event of events) if (event.kind === "read") event.text = (reads++ ? "read again" : "first read") + event.text;
    return Object.assign({ name, places: [name], events }, completeness(data));
  }
  function completeness(data) {
    const inside = data.ops.count.filter((count) => count >= 0).length,
      whole = inside === data.total;
    return {
      whole,
      note: whole
        ? "To the operation: its own times are in the history."
        : "Of this record the page holds what " +
          inside.toLocaleString("en") +
          " of " +
          data.total.toLocaleString("en") +
          " operations say: more may have read it.",
    };
  }
  const who = (data, i) =>
    [data.rows[data.ops.row[i]].node, "(process " + data.ops.process[i] + ", op " + data.ops.op[i] + ")"]
      .filter(Boolean)
      .join(" ");
  function sendEvents(data, i) {
    const { ops } = data,
      op = ops.index[i],
      intent = ops.intents[ops.intent[i]],
      events = [{ at: ops.start[i], kind: "sent", text: "sent by " + who(data, i) + ", which began now", op }];
    const outcome = (intent || "its send") + (ops.length[i] < 0 ? " never completed" : ": " + timeline.OUTCOMES[ops.outcome[i]]);
    events.push({ at: ops.length[i] < 0 ? ops.start[i] : ops.start[i] + ops.length[i], kind: "decided", text: outcome, op });
    return events;
  }
  const readEvent = (data, i) => ({
    at: data.ops.start[i] + Math.max(0, data.ops.length[i]),
    kind: "read",
    text: " by " + who(data, i) + (data.rows[data.ops.row[i]].role === "final" ? ", in the final read" : ""),
    op: data.ops.index[i],
  });
})((globalThis.fencepostTimeline ??= {}));
