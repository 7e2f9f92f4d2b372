"use strict";
// Data as the page has it after `read`, small enough to be seen whole. Times in microseconds.
function example(changes = {}) {
  const rows = [
    { label: "c0 p0…5", role: "writer", node: "c0", processes: [0, 5], more: 0 },
    { label: "c1 p1", role: "writer", node: "c1", processes: [1], more: 0 },
    { label: "c2 p2", role: "reader", node: "c2", processes: [2], more: 0 },
  ];
  // index, row, process, op, start, length, outcome, records [where, offset] (where: twice the partition, and 1 more where read)
  const operations = [
    [
      0,
      0,
      0,
      0,
      0,
      100,
      0,
      [
        [0, 7],
        [2, 3],
      ],
    ],
    [1, 1, 1, 0, 50, 200, 1, [[0, 8]]],
    [2, 0, 0, 1, 200, -1, 2, [[2, -1]]],
    [
      3,
      2,
      2,
      0,
      300,
      10,
      0,
      [
        [1, 7],
        [3, 3],
      ],
    ],
    [4, 0, 5, 0, 400, 50, 0, []],
    [5, 2, 2, 1, 500, 10, 0, [[1, 7]]],
  ];
  const column = (n) => operations.map((operation) => operation[n]),
    ops = { fs: ["poll", "txn"], intents: ["", "commit"] };
  ["index", "row", "process", "op", "start", "length", "outcome"].forEach((name, n) => {
    ops[name] = column(n);
  });
  ops.f = ops.row.map((row) => (row === 2 ? 0 : 1));
  ops.intent = ops.f.slice();
  ops.count = operations.map((operation) => operation[7].length);
  let first = 0;
  ops.first = ops.count.map((count) => {
    const begin = first;
    first += count;
    return begin;
  });
  const flat = operations.flatMap((operation) => operation[7]);
  return Object.assign(
    {
      end: 1000,
      total: 6,
      windows: [],
      rows,
      ops,
      records: { where: flat.map(([where]) => where), offset: flat.map(([, offset]) => offset) },
      partitions: ["t-0", "t-1"],
      errors: { 1: [["commit", "_TIMED_OUT", "late"]] },
      values: {},
      faults: [
        { id: 0, kind: "isolate", label: "isolate n1", start: 180, end: 260, effective: true, remark: "", lane: 0 },
        { id: 1, kind: "kill", label: "kill n2", start: 450, end: 800, effective: false, remark: "no effect", lane: 0 },
      ],
      findings: [
        { id: 1, anomaly: "torn-transaction", sentence: "Torn.", forbidden: true, time: 200, operations: [2, 3], faults: [0] },
        { id: 2, anomaly: "G0", sentence: "Legal.", forbidden: false, time: 50, operations: [1], faults: [] },
        { id: 3, anomaly: "lost-write", sentence: "Lost.", forbidden: true, time: null, operations: [99], faults: [] },
      ],
      brokers: [],
      lives: [],
      charts: [],
      gap: null,
      finalAt: null,
    },
    changes,
  );
}
