"use strict";
test("the life of a record that was sent and read twice", () => {
  const data = example(),
    [record] = timeline.recordsOf(data, 0),
    life = timeline.lifeOf(data, 0, record);
  assert.equal(life.name, "t-0@7");
  assert.deepEqual(
    life.events.map((event) => [event.at, event.kind, event.op]),
    [
      [0, "sent", 0],
      [100, "decided", 0],
      [310, "read", 3],
      [510, "read", 5],
    ],
  );
  assert.ok(life.events[2].text.startsWith("first read by c2"));
  assert.ok(life.events[3].text.startsWith("read again by c2"));
  assert.ok(life.whole);
});

test("from a read the same life is reached", () => {
  const data = example(),
    [record] = timeline.recordsOf(data, 5);
  assert.ok(record.read);
  assert.equal(timeline.lifeOf(data, 5, record).events.length, 4);
});

test("a page that does not hold every operation says so", () => {
  const data = example({ total: 40 }),
    life = timeline.lifeOf(data, 0, timeline.recordsOf(data, 0)[0]);
  assert.ok(!life.whole);
  assert.ok(life.note.includes("6 of 40 operations"));
});

test("records that the page does not have take completeness away too", () => {
  const data = example();
  data.ops.count[4] = -1;
  assert.ok(!timeline.lifeOf(data, 0, timeline.recordsOf(data, 0)[0]).whole);
  assert.deepEqual(timeline.recordsOf(data, 4), []);
});

test("a record without an offset cannot be followed to its reads", () => {
  const data = example(),
    life = timeline.lifeOf(data, 2, timeline.recordsOf(data, 2)[0]);
  assert.equal(life.name, "t-1@?");
  assert.ok(life.note.includes("offset is not known"));
  assert.deepEqual(
    life.events.map((event) => event.text),
    ["sent by c0 (process 0, op 1), which began now", "commit never completed"],
  );
});

test("a finding's record has the life that was computed from the whole history", () => {
  const events = [
    [5, "sent", "sent to t-0", 0],
    [90, "acknowledged", "acknowledged at t-0@7", 0],
    [null, "stored", "in the log segments at t-0@7", null],
  ];
  const data = example({ lives: [{ v: 1, name: "process 0, op 0, record 0", places: ["t-0@7"], findings: [1], events }] });
  const life = timeline.lifeOf(data, 0, timeline.recordsOf(data, 0)[0]);
  assert.deepEqual([life.whole, life.events.length, life.events[2].at], [true, 3, null]);
  assert.equal(timeline.lifeOf(data, 1, timeline.recordsOf(data, 1)[0]).name, "t-0@8");
});
