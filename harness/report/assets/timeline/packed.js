"use strict";
// Columns of whole numbers as `packed.py` writes them: differences, zigzag, LEB128, Base64.
(function (timeline) {
  timeline.unpacked = function (text) {
    const bytes = atob(text),
      values = [];
    for (let at = 0; at < bytes.length;) {
      let value = 0,
        factor = 1,
        byte;
      do {
        byte = bytes.charCodeAt(at++);
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte & 128);
      values.push(value % 2 ? -(value + 1) / 2 : value / 2);
    }
    return values;
  };

  timeline.summed = function (differences) {
    let sum = 0;
    return differences.map((difference) => (sum += difference));
  };

  // Sums of the differences within each group.
  timeline.summedWithin = function (differences, groups) {
    const sums = new Map();
    return differences.map((difference, at) => {
      const sum = (sums.get(groups[at]) || 0) + difference;
      sums.set(groups[at], sum);
      return sum;
    });
  };

  // The data of the page with its columns as arrays. `ops.first` is where the records of each operation begin.
  timeline.read = function (data) {
    const { unpacked, summed, summedWithin } = timeline,
      packed = data.ops,
      intents = packed.intents.length;
    const ops = {
      fs: packed.fs,
      intents: packed.intents,
      index: summed(unpacked(packed.index)),
      start: summed(unpacked(packed.start)),
    };
    for (const name of ["row", "process", "op", "length"]) ops[name] = unpacked(packed[name]);
    const kind = unpacked(packed.kind);
    ops.outcome = kind.map((code) => code % 3);
    ops.intent = kind.map((code) => Math.floor(code / 3) % intents);
    ops.f = kind.map((code) => Math.floor(code / 3 / intents));
    ops.count = unpacked(data.records.count);
    let first = 0;
    ops.first = ops.count.map((count) => {
      const begin = first;
      first += Math.max(0, count);
      return begin;
    });
    const where = unpacked(data.records.where);
    const records = { where, offset: summedWithin(unpacked(data.records.offset), where) };
    const errors = Object.entries(data.errors).map(([i, numbers]) => [i, numbers.map((number) => data.errorTexts[number])]);
    return Object.assign({}, data, { ops, records, errors: Object.fromEntries(errors) });
  };
})((globalThis.fencepostTimeline ??= {}));
