"use strict";
const setUp = () => {
  const data = example();
  return { data, ops: data.ops, rows: timeline.index(data).rows, index: timeline.index(data) };
};

test("an operation without an end lasts until the next of its row, or the end of the run", () => {
  const { rows, index } = setUp();
  assert.deepEqual(
    rows.map((row) => row.at),
    [[0, 2, 4], [1], [3, 5]],
  );
  assert.equal(index.endOf(2), 400);
  const data = example();
  data.ops.length[4] = -1;
  assert.equal(timeline.index(data).endOf(4), 1000);
});

test("the index knows findings by operation, and marks forbidden ones in order of time", () => {
  const { index } = setUp();
  assert.deepEqual([...index.guilty.keys()].sort(), [1, 2, 3]);
  assert.ok(index.forbidden(2));
  assert.ok(!index.forbidden(1));
  assert.deepEqual(
    index.marked.map((finding) => finding.id),
    [1],
  ); // one is permitted, and one has no time
});

test("the next fault of a lane is known", () => {
  const { data, index } = setUp();
  assert.equal(index.nextFault.get(data.faults[0]), 450);
  assert.equal(index.nextFault.get(data.faults[1]), Infinity);
});

test("wide operations are bars, and narrow ones share a pixel by the least certain outcome", () => {
  const { rows, ops } = setUp();
  const wide = timeline.decimated(rows[0], ops, timeline.scale({ from: 0, to: 1000 }, 0, 1000), null);
  assert.deepEqual(
    wide.bars.map((bar) => [bar.i, bar.from, bar.width]),
    [
      [0, 0, 100],
      [2, 200, 200],
      [4, 400, 50],
    ],
  );
  const narrow = timeline.decimated(rows[0], ops, timeline.scale({ from: 0, to: 1000000 }, 0, 10), null);
  assert.deepEqual([...narrow.dense.slice(0, 2)], [3, 0]);
  assert.deepEqual(narrow.bars, []);
});

test("what a filter leaves out gives way to what it leaves", () => {
  const { rows, ops } = setUp();
  const scale = timeline.scale({ from: 0, to: 1000000 }, 0, 10);
  assert.equal(timeline.decimated(rows[0], ops, scale, [true, false, false, false, false, false]).dense[0], 1);
  assert.equal(timeline.decimated(rows[0], ops, scale, [false, false, false, false, false, false]).dense[0], 7);
});

test("no width at all is no error", () => {
  const { rows, ops } = setUp();
  timeline.decimated(rows[0], ops, timeline.scale({ from: 0, to: 1000 }, 116, -8), null);
  assert.equal(timeline.layout(example(), 0, true), null);
  assert.ok(timeline.layout(example(), 200, true).right > timeline.layout(example(), 200, true).left);
});

test("operations outside of the view are not looked at", () => {
  const { rows, ops } = setUp();
  const { bars } = timeline.decimated(rows[0], ops, timeline.scale({ from: 410, to: 440 }, 0, 100), null);
  assert.deepEqual(
    bars.map((bar) => bar.i),
    [4],
  );
});

test("the operation under a pointer, or near it", () => {
  const { rows, ops } = setUp();
  assert.equal(timeline.operationAt(rows[0], ops, 50, 5), 0);
  assert.equal(timeline.operationAt(rows[0], ops, 150, 5), null);
  assert.equal(timeline.operationAt(rows[0], ops, 198, 5), 2);
  assert.equal(timeline.operationAt(rows[0], ops, 300, 5), 2);
});

test("neighbours in a lane, with and without a filter", () => {
  const { rows, ops } = setUp();
  assert.deepEqual(
    [timeline.neighbour(rows, ops, 0, 1), timeline.neighbour(rows, ops, 4, 1), timeline.neighbour(rows, ops, 4, -1)],
    [2, 4, 2],
  );
  assert.equal(timeline.neighbour(rows, ops, 0, 1, [true, true, false, true, true, true]), 4);
});

test("the next lane that has anything, at the nearest time", () => {
  const { rows, ops } = setUp();
  assert.equal(timeline.inNextRow(rows, ops, 0, 1, 420), 1);
  assert.equal(timeline.inNextRow(rows, ops, 0, 1, 420, [true, false, true, true, true, true]), 5);
  assert.equal(timeline.inNextRow(rows, ops, 0, -1, 420), null);
  assert.equal(timeline.nearest(rows[2], ops, 450), 5);
});
