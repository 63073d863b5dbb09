// Keys, and a look for what is new. Every page works without it.
"use strict";
(() => {
  const main = document.getElementById("main");

  // A one-time code in the fragment never reaches a server's log; it is typed for the user and sent.
  // A second link, opened in the same tab, changes the fragment alone.
  const login = document.getElementById("login");
  const enter = () => {
    if (!login || location.hash.length < 2) return;
    login.elements.code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search);
    login.requestSubmit();
  };
  addEventListener("hashchange", enter);
  enter();

  // Rows: j and k move, o opens, / searches.
  let at = -1;
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    at = Math.max(0, Math.min(all.length - 1, at + by));
    const link = all[at].querySelector("a");
    if (link) link.focus();
    all[at].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (!search) return;
      search.focus();
      event.preventDefault();
    }
  });

  const typed = () => [...main.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);

  // Any other page with a session is asked for when it is seen again, and left when the session has ended.
  if (main && !main.hasAttribute("data-refresh") && document.querySelector(".logout")) {
    document.addEventListener("visibilitychange", async () => {
      if (document.hidden || typed()) return;
      const answer = await fetch("/notices", { method: "HEAD" }).catch(() => null);
      if (answer && answer.status === 401) location.reload();
    });
  }

  // While the page is seen and nothing is being written or read in it, it is asked for again when something has happened; where
  // no stream of events can be had, every few seconds.
  if (main && main.hasAttribute("data-refresh")) {
    const busy = () => {
      const active = document.activeElement;
      const opened = main.querySelector("details[open]:not([data-open])");
      return document.hidden || opened || typed() || (active && active.closest("input, textarea, select, iframe"));
    };
    const streams = () => stream && stream.readyState === EventSource.OPEN;
    const swap = (page, selector) => {
      const [old, fresh] = [document.querySelector(selector), page.querySelector(selector)];
      if (old && fresh && old.innerHTML !== fresh.innerHTML) old.replaceChildren(...fresh.childNodes);
    };
    let tag = null;
    let asking = false;
    let again = false;
    let missed = false;
    const refresh = async () => {
      missed = busy();
      // Without a stream the session may have ended, which is looked at while something is read, too.
      if (missed && (document.hidden || typed() || streams())) return;
      if (asking) { again = true; return; }
      asking = true;
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        // The session has ended: its mail goes, and the login leads back here.
        if (answer.status === 401) { location.reload(); return; }
        const now = answer.headers.get("etag");
        if (answer.ok && !(tag && now === tag)) {
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          tag = now;
          if (!busy()) {
            const focused = document.activeElement && document.activeElement.getAttribute("href");
            swap(page, "#main");
            swap(page, "nav[aria-label=Pages]");
            const same = focused && document.querySelector(`a[href="${CSS.escape(focused)}"]`);
            if (same) same.focus({ preventScroll: true });
          }
        }
      } catch { /* the engine is away; the next look may find it */ }
      asking = false;
      if (again) { again = false; refresh(); }
    };
    // One stream a tab, and none while the tab is hidden: a browser opens six connections to a host in all.
    let stream = null;
    let soon = null;
    const happened = () => {
      clearTimeout(soon);
      soon = setTimeout(refresh, 60);
    };
    const follow = () => {
      if (document.hidden || !window.EventSource) {
        if (stream) stream.close();
        stream = null;
        return;
      }
      if (stream && stream.readyState !== EventSource.CLOSED) return;
      stream = new EventSource(`/api/v1/events?${main.dataset.refresh}`);
      // What happened since the page was made and before the stream began is in no event of it.
      stream.onopen = happened;
      stream.onmessage = happened;
      stream.addEventListener("gap", happened);
    };
    document.addEventListener("visibilitychange", () => { follow(); happened(); });
    setInterval(() => {
      follow();
      if (missed || !streams()) refresh();
    }, 15000);
    follow();
  }
})();
