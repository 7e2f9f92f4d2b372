"use strict";
// Pages without a table that is drawn are ready at once.
if (!document.documentElement.dataset.ready) document.documentElement.dataset.ready = "true";
