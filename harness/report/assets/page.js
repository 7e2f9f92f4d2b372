"use strict";
// What every report needs: buttons and links that copy, folds that open for a link and on paper.
(function () {
  const announcements = document.getElementById("announcements");

  // Say it to those who do not see the button change. The text changes each time, so that it is read each time.
  function announce(text) {
    announcements.textContent = "";
    setTimeout(() => { announcements.textContent = text; });
  }

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  // A page from disk may lack the clipboard API, or be refused it.
  async function clipped(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (refused) {
      return false;
    }
  }

  // Copy the text of an element; where nothing may be copied, it stays selected for Ctrl+C.
  async function copyElement(element) {
    if (await clipped(element.textContent)) return true;
    select(element);
    return document.execCommand("copy");
  }

  async function copyText(text) {
    if (await clipped(text)) return true;
    const holder = document.createElement("span");
    holder.className = "visually-hidden";
    holder.textContent = text;
    document.body.append(holder);
    const done = await copyElement(holder);
    window.getSelection().removeAllRanges();
    holder.remove();
    return done;
  }

  async function pressed(button) {
    const done = await copyElement(document.getElementById(button.dataset.copy));
    const label = (button.dataset.label = button.dataset.label || button.textContent);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    announce(done ? "Copied" : "Selected: press Ctrl+C to copy");
    setTimeout(() => { button.textContent = label; }, 4000);
  }
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => pressed(button));

  // ------------------------------------------------------------------------------------------- anchors
  // Every element of the class `anchored` gets a link to itself, which copies its address: at its `.anchor-place`, else at its
  // first heading, else at its end.
  function addressed(element) {
    const link = document.createElement("a");
    link.className = "anchor";
    link.href = "#" + encodeURIComponent(element.id);
    link.title = "Copy the link to this";
    link.setAttribute("aria-label", "Copy the link to " + element.id.replace(/-/g, " "));
    link.addEventListener("click", async () => {
      const done = await copyText(location.href.split("#")[0] + link.getAttribute("href"));
      announce(done ? "Link copied" : "The address bar has the link");
      if (!done) return;
      link.classList.add("copied");
      setTimeout(() => link.classList.remove("copied"), 2000);
    });
    const heading = element.querySelector(".anchor-place, h2, h3, h4, th, dt, .op-head");
    (heading || element).append(" ", link);
  }
  for (const element of document.querySelectorAll(".anchored[id]")) addressed(element);

  // --------------------------------------------------------------------------------------------- folds
  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("#findings .folded:not([open]), .weakened details:not([open]), .on-paper:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
  });
  window.addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });

  // The element that the fragment names: `#finding-3`, or `at` beside a state of the timeline (`#from=12&to=14&at=finding-3`).
  const withState = () => /^#[a-z]+=/.test(location.hash);
  function named() {
    const text = location.hash.slice(1);
    try {
      return document.getElementById(withState() ? new URLSearchParams(text).get("at") : decodeURIComponent(text));
    } catch (malformed) {
      return null;
    }
  }

  // A link to something inside folds opens them, and those that it is itself.
  function reveal() {
    const target = named();
    let moved = false;
    for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details"))
      if (!fold.open) { fold.open = true; moved = true; }
    if (target && (moved || withState())) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  document.addEventListener("DOMContentLoaded", () => { reveal(); document.documentElement.dataset.ready = "true"; });
})();
