"use strict";
test("packed numbers are read, negative and large ones too", () => {
  assert.deepEqual(timeline.unpacked(""), []);
  assert.deepEqual(timeline.unpacked("AAEC"), [0, -1, 1]);
  assert.deepEqual(timeline.unpacked(packedInPython.text), packedInPython.values);
});

test("differences are summed, in groups too", () => {
  assert.deepEqual(timeline.summed([5, 95, -94]), [5, 100, 6]);
  assert.deepEqual(timeline.summedWithin([5, 100, 1, -10, 2], [0, 1, 0, 1, 0]), [5, 100, 6, 90, 8]);
});

test("a page's data becomes columns", () => {
  const data = timeline.read(pageInPython.compact);
  for (const name of ["index", "row", "process", "op", "start", "length"])
    assert.deepEqual(data.ops[name], pageInPython.ops[name]);
  const kinds = data.ops.f.map((f, i) => (f * data.ops.intents.length + data.ops.intent[i]) * 3 + data.ops.outcome[i]);
  assert.deepEqual(kinds, pageInPython.ops.kind);
  assert.deepEqual(data.ops.count, pageInPython.count);
  assert.deepEqual(data.errors, pageInPython.errors);
  assert.ok(Object.keys(data.errors).length > 0);
  assert.deepEqual(data.records.offset, pageInPython.offset);
  assert.equal(
    data.ops.first[data.ops.first.length - 1] + Math.max(0, data.ops.count[data.ops.count.length - 1]),
    data.records.where.length,
  );
});
