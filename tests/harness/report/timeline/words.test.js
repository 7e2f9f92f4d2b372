"use strict";
const words = (i, data = example()) => timeline.operationText(data, timeline.index(data).guilty, i);

test("an operation in words", () => {
  assert.equal(
    words(1),
    "txn (commit): fail\nc1, process 1, op 0 (operation 1)\nat 0.00005 s, took 0.2 ms\nsend t-0@8\nerror: commit → _TIMED_OUT → late\npart of finding 2 (permitted)",
  );
  assert.ok(words(2).includes("never completed\nsend t-1@?\npart of finding 1"));
  assert.ok(words(3).includes("read t-0@7, read t-1@3"));
});

test("records that are not on the page are not none", () => {
  const data = example();
  data.ops.count[4] = -1;
  assert.ok(words(4, data).includes("its records are in the history"));
});

test("names of an adopted history stand beside its records", () =>
  assert.ok(words(0, example({ values: { 0: ["ord-1", ""] } })).includes("send t-0@7 = ord-1, send t-1@3")));

test("a broker in words, and that nothing is known of it", () => {
  const data = example(),
    broker = { node: "n1", faults: [0], sought: [[180, "leader"]], held: [[0, 100, "leads 2", "leads t-0 t-1"]] };
  assert.equal(timeline.brokerText(data, broker, 50, 5), "n1\nleads t-0 t-1");
  assert.ok(timeline.brokerText(data, broker, 182, 5).includes("leader, when a fault looked for it"));
  assert.ok(timeline.brokerText(data, broker, 182, 5).includes("isolate n1"));
  assert.equal(timeline.brokerText(data, broker, 900, 5), "n1\nnothing says what it was at 0.0009 s");
});

test("faults, findings and rows in words", () => {
  const data = example();
  assert.equal(timeline.faultText(data.faults[1]), "kill n2\nfrom 0.00045 s to 0.0008 s\nno effect");
  assert.equal(timeline.findingText(data.findings[0]), "torn-transaction at 0.0002 s\nTorn.");
  assert.equal(timeline.rowText(data.rows[0]), "c0 p0…5\nwriter\nprocesses 0, 5");
  const many = { label: "p0…99", role: "writer", processes: Array.from({ length: 60 }, (_, n) => n), more: 40 };
  assert.ok(timeline.rowText(many).endsWith("processes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 88 more"));
});
