"use strict";
// The timeline's state in the page's address, `#filter=process:3&from=12.1&to=14.3&op=123`, beside plain anchors (`#finding-3`).
(function (timeline) {
  // Anything but a state is a plain anchor: {anchor}. Numbers that are none are left out.
  timeline.decoded = function (hash) {
    const text = hash.replace(/^#/, "");
    if (!/^[a-z]+=/.test(text)) return { anchor: plain(text) };
    const fields = new URLSearchParams(text),
      state = { anchor: fields.get("at") || "", filter: fields.get("filter") || "" };
    const [from, to, op] = ["from", "to", "op"].map((name) =>
      fields.get(name) === null || fields.get(name).trim() === "" ? NaN : Number(fields.get(name)),
    );
    if (Number.isFinite(from) && Number.isFinite(to) && from < to) state.view = { from: from * 1e6, to: to * 1e6 };
    if (Number.isInteger(op) && op >= 0) state.op = op;
    return state;
  };
  function plain(text) {
    try {
      return decodeURIComponent(text);
    } catch (malformed) {
      return text;
    }
  }

  // The fragment of a state; empty where there is nothing to keep. A plain anchor that was there is kept as `at`.
  timeline.encoded = function (state) {
    const parts = [];
    if (state.filter)
      parts.push("filter=" + encodeURIComponent(state.filter).replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%20/g, "+"));
    if (state.view)
      for (const name of ["from", "to"]) parts.push(name + "=" + (state.view[name] / 1e6).toFixed(6).replace(/\.?0+$/, ""));
    if (state.op !== undefined) parts.push("op=" + state.op);
    if (!parts.length) return state.anchor || "";
    if (state.anchor) parts.push("at=" + encodeURIComponent(state.anchor));
    return parts.join("&");
  };
})((globalThis.fencepostTimeline ??= {}));
