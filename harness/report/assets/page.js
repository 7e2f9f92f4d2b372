"use strict";
// What every report needs: buttons that copy, and forbidden findings unfolded on paper.
(function () {
  function selected(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch (refused) {
      done = selected(source); // a page from disk may lack the clipboard API
    }
    button.textContent = done ? "Copied" : "Press Ctrl+C";
  }
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));

  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("#findings .folded:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
  });
  window.addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });

  // A link to a card inside folds opens them.
  function reveal() {
    const card = location.hash.startsWith("#finding-") && document.getElementById(location.hash.slice(1));
    let moved = false;
    for (let fold = card && card.closest("details"); fold; fold = fold.parentElement.closest("details"))
      if (!fold.open) { fold.open = true; moved = true; }
    if (moved) card.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  document.addEventListener("DOMContentLoaded", () => { reveal(); document.documentElement.dataset.ready = "true"; });
})();
