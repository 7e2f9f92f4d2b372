"use strict";
// Errors that are seen. It comes before everything that could fail or be refused, so that nothing is missed.
(function () {
  const errors = document.getElementById("script-errors");
  function told(text) {
    errors.hidden = false;
    errors.textContent += (errors.textContent ? "\n" : "This page's script failed: ") + text;
  }
  window.addEventListener("error", (event) => told(event.message + " (line " + event.lineno + ")"));
  document.addEventListener("securitypolicyviolation", (event) => told("refused by the page's policy: " + event.violatedDirective));
})();
