"use strict";
test("a state comes back as it was", () => {
  for (const state of [
    { anchor: "", filter: 'class:torn process:3,5 "a & b" =', view: { from: 12100000, to: 14300000 }, op: 123 },
    { anchor: "finding-3", filter: "info" },
    { anchor: "", filter: "", op: 0 },
    { anchor: "", filter: "", view: { from: -5000, to: 1 } },
  ])
    assert.deepEqual(timeline.decoded("#" + timeline.encoded(state)), state);
});

test("a fragment can be read by people", () => {
  assert.equal(
    timeline.encoded({ anchor: "", filter: "class:torn process:3,5", view: { from: 12100000, to: 14300000 }, op: 9 }),
    "filter=class:torn+process:3,5&from=12.1&to=14.3&op=9",
  );
});

test("plain anchors are left as they are", () => {
  assert.deepEqual(timeline.decoded("#finding-3"), { anchor: "finding-3" });
  assert.deepEqual(timeline.decoded(""), { anchor: "" });
  assert.deepEqual(timeline.decoded("#%E0%A4%A"), { anchor: "%E0%A4%A" });
  assert.equal(timeline.encoded({ anchor: "finding-3", filter: "" }), "finding-3");
});

test("what is no number is left out", () => {
  assert.deepEqual(timeline.decoded("#from=1&to=&op=x"), { anchor: "", filter: "" });
  assert.deepEqual(timeline.decoded("#from=5&to=4"), { anchor: "", filter: "" });
  assert.deepEqual(timeline.decoded("#op=-1"), { anchor: "", filter: "" });
});
