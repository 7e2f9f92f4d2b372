"use strict";
// The data of a page: rows that are packed in columns, and addresses.
const site = {};
(function () {
  site.up = document.documentElement.dataset.up || "";

  // Python's columns (harness/site/columns.py) as one object for each row.
  site.rows = function (packed) {
    const rows = Array.from({ length: packed.count }, () => ({}));
    for (const [name, column] of Object.entries(packed.columns)) {
      if (Array.isArray(column)) for (let i = 0; i < rows.length; i++) rows[i][name] = column[i];
      else for (let i = 0; i < rows.length; i++) rows[i][name] = column.values[column.at[i]];
    }
    return rows;
  };

  site.data = function (id, page = document) {
    const element = page.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  };

  // An element with attributes, text and children. Texts of runs never become markup.
  site.element = function (tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
      if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  };

  // Addresses come percent-encoded (harness/site/addresses.py), and begin with a folder of ours.
  site.reportOf = (row) => row.report && site.up + row.report + (row.finding ? "#finding-" + row.finding : "");

  site.compareOf = (a, b) => site.up + "compare.html#" + new URLSearchParams({ a, ...(b ? { b } : {}) });

  // The last run of the same test before this one in which everything was as expected; else the last before it.
  site.predecessor = function (rows, row) {
    const before = rows.filter((other) => other.test === row.test && other.campaign === row.campaign && other.verdict &&
      (other.created < row.created || (other.created === row.created && other.place < row.place)));
    before.sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0));
    return before.find((other) => other.tone === "good" || other.tone === "shown") || before[0] || null;
  };
})();
