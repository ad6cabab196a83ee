// Keeps the page of now. Without this script the page reloads itself.
(() => {
  "use strict";
  const pause = 2000;
  const view = document.getElementById("view");
  const stale = document.getElementById("stale");
  const news = document.getElementById("news");
  let seen = Date.now();
  let failed = 0;

  const status = () => document.getElementById("status")?.dataset.status ?? "";

  function say() {
    stale.hidden = failed < 2;
    if (!stale.hidden) {
      const seconds = Math.round((Date.now() - seen) / 1000);
      stale.textContent = `Not live: no answer for ${seconds} s. This page shows the state before that.`;
    }
    document.body.classList.toggle("old", failed >= 2);
  }

  async function look() {
    try {
      const answer = await fetch("part", {
        headers: { "If-None-Match": `"${view.dataset.mark}"` },
        cache: "no-store",
        signal: AbortSignal.timeout(8000),
      });
      // What a person has selected to copy stays until it is let go.
      if (answer.status !== 304 && (getSelection()?.isCollapsed ?? true)) {
        const text = await answer.text();
        if (!(answer.headers.get("content-type") ?? "").startsWith("text/html")) throw new Error("not the page");
        const before = status();
        view.innerHTML = text;
        view.dataset.mark = (answer.headers.get("etag") ?? "").replaceAll('"', "");
        if (status() !== before) {
          news.textContent = document.querySelector("h1")?.textContent ?? "";
          document.title = document.title.replace(/^[^:]*/, status());
        }
      }
      seen = Date.now();
      failed = 0;
    } catch {
      failed++;
    }
    say();
    setTimeout(look, pause);
  }

  setTimeout(look, pause);
})();
