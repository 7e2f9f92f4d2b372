"use strict";
const left = (text, data = example()) => {
  const { operations, findings, faults } = timeline.filtered(data, timeline.parsedFilter(text), timeline.index(data));
  const ids = (mask, all) => (mask === null ? null : all.filter((_, at) => mask[at]));
  return [
    ids(operations, data.ops.index),
    ids(
      findings,
      data.findings.map((finding) => finding.id),
    ),
    ids(
      faults,
      data.faults.map((fault) => fault.id),
    ),
  ];
};

test("tokens are read, and what is none is said", () => {
  assert.deepEqual(timeline.parsedFilter('class:torn-transaction process:3,5 info -f:"a b" clas:x what'), {
    tokens: [
      { key: "class", value: "torn-transaction", not: false },
      { key: "process", value: "3", not: false },
      { key: "process", value: "5", not: false },
      { key: "type", value: "info", not: false },
      { key: "f", value: "a b", not: true },
    ],
    unknown: ["clas:x", "what"],
  });
  assert.deepEqual(timeline.parsedFilter("type:okay").unknown, ["type:okay"]);
  assert.deepEqual(timeline.parsedFilter("process:").unknown, ["process:"]);
  assert.deepEqual(timeline.parsedFilter("  "), { tokens: [], unknown: [] });
});

test("without tokens nothing is left out", () => assert.deepEqual(left(""), [null, null, null]));

test("operations by what they are", () => {
  assert.deepEqual(left("process:0")[0], [0, 2]);
  assert.deepEqual(left("process:0,5")[0], [0, 2, 4]);
  assert.deepEqual(left("node:c0 role:writer")[0], [0, 2, 4]);
  assert.deepEqual(left("f:poll")[0], [3, 5]);
  assert.deepEqual(left("f:p*")[0], [3, 5]);
  assert.deepEqual(left("info")[0], [2]);
  assert.deepEqual(left("fail info")[0], [1, 2]);
  assert.deepEqual(left("-ok")[0], [1, 2]);
  assert.deepEqual(left("op:3")[0], [3]);
  assert.deepEqual(left("partition:t-1")[0], [0, 2, 3]);
});

test("different keys must all hold", () => assert.deepEqual(left("process:0 info")[0], [2]));

test("operations of findings, and during faults", () => {
  assert.deepEqual(left("class:torn-transaction")[0], [2, 3]);
  assert.deepEqual(left("finding:2")[0], [1]);
  assert.deepEqual(left("fault:isolate")[0], [1, 2]);
  assert.deepEqual(left("fault:1")[0], [4, 5]);
  assert.deepEqual(left("fault:n2")[0], [4, 5]);
});

test("findings by their class, their faults and their operations", () => {
  assert.deepEqual(left("class:torn-*")[1], [1]);
  assert.deepEqual(left("fault:isolate")[1], [1]);
  assert.deepEqual(left("process:1")[1], [2, 3]); // one whose operations are not on the page is not hidden
  assert.deepEqual(left("-class:G0")[1], [1, 3]);
});

test("faults by what they are", () => {
  assert.deepEqual(left("fault:kill")[2], [1]);
  assert.deepEqual(left("process:0")[2], [0, 1]);
});

test("signs of regular expressions are only signs", () => {
  assert.deepEqual(left("f:.*")[0], []);
  assert.deepEqual(left("f:(")[0], []);
});

test("words complete the last token", () => {
  const data = example();
  assert.deepEqual(timeline.completions(data, "info pro"), ["info process:"]);
  assert.deepEqual(timeline.completions(data, "class:t"), ["class:torn-transaction"]);
  assert.deepEqual(timeline.completions(data, "-fault:i"), ["-fault:isolate"]);
  assert.deepEqual(timeline.completions(data, "process:"), ["process:0", "process:5", "process:1", "process:2"]);
  assert.deepEqual(timeline.completions(data, "constructor:"), []);
});
