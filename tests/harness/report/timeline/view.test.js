"use strict";
test("a view stays within the whole, and is never too short", () => {
  const whole = timeline.wholeView(1e6);
  assert.deepEqual(timeline.clamped({ from: -9e9, to: 9e9 }, whole), whole);
  const moved = timeline.clamped({ from: 2e6, to: 2.5e6 }, whole);
  assert.equal(moved.to, whole.to);
  assert.ok(Math.abs(moved.to - moved.from - 5e5) < 1e-3);
  const short = timeline.clamped({ from: 1000, to: 1001 }, whole);
  assert.equal(Math.round(short.to - short.from), 500);
});

test("zooming keeps the time it goes around", () => {
  assert.deepEqual(timeline.zoomed({ from: 0, to: 100 }, 0.5, 20), { from: 10, to: 60 });
  assert.deepEqual(timeline.zoomed({ from: 0, to: 100 }, 2), { from: -50, to: 150 });
  assert.deepEqual(timeline.panned({ from: 0, to: 100 }, 0.25), { from: 25, to: 125 });
});

test("a scale leads to pixels and back", () => {
  const scale = timeline.scale({ from: 0, to: 1000 }, 100, 300);
  assert.equal(scale.x(500), 200);
  assert.equal(scale.time(200), 500);
});

test("ticks are round, inside, and told apart by their digits", () => {
  for (const [from, to, width] of [
    [0, 6e7, 900],
    [1e6, 1.002e6, 900],
    [0, 3600e6, 150],
    [123456, 123956, 700],
  ]) {
    const { times, step, digits } = timeline.ticks({ from, to }, width);
    assert.ok(times.length >= 1 && times.length <= width / 50 + 3, from + " " + times.length);
    assert.ok(times.every((time) => time >= from - 1e-6 && time <= to + 1e-6));
    assert.equal(new Set(times.map((time) => (time / 1e6).toFixed(digits))).size, times.length);
    assert.ok([1, 2, 5].includes(Number(step.toExponential().split("e")[0])));
  }
});

test("times in words", () => {
  assert.equal(timeline.seconds(12345678), "12.345678 s");
  assert.equal(timeline.seconds(12345000), "12.345 s");
  assert.equal(timeline.duration(12345), "12.3 ms");
});

test("bisection gives the first that is not less", () => {
  assert.equal(timeline.bisect([], 3), 0);
  assert.deepEqual(
    [0, 1, 2, 5, 6].map((wanted) => timeline.bisect([1, 2, 5, 5], wanted)),
    [0, 0, 1, 2, 4],
  );
});
