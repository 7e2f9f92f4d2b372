"use strict";
// A served page asks for changes while somebody looks at it. What has changed is taken from the same page, fetched anew.
(function () {
  const page = document.documentElement, EVERY_MS = 2000;
  let version = page.dataset.version, waiting = false;

  function take(fresh) {
    for (const element of fresh.querySelectorAll("[data-live]")) {
      const old = document.querySelector(`[data-live="${element.dataset.live}"]`);
      if (old && old.innerHTML !== element.innerHTML) old.replaceWith(document.importNode(element, true));
    }
    const runs = site.data("runs-data", fresh);
    if (runs && site.replaceRuns) site.replaceRuns(runs);
  }

  async function look() {
    if (waiting || document.hidden) return;
    waiting = true;
    try {
      const answer = await fetch(site.up + "live.json", { cache: "no-store" });
      const news = answer.ok ? await answer.json() : { version };
      if (news.version !== version) {
        const again = await fetch(location.pathname, { cache: "no-store" });
        if (again.ok) take(new DOMParser().parseFromString(await again.text(), "text/html"));
        version = news.version;
      }
    } catch (ended) {
      // the server has ended: what is shown stays
    } finally {
      waiting = false;
    }
  }
  setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
})();
