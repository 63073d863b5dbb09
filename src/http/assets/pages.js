// Keys, and a look for what is new. Every page works without it.
"use strict";
(() => {
  const main = document.getElementById("main");

  // A one-time code in the fragment never reaches a server's log; it is typed for the user and sent.
  const login = document.getElementById("login");
  if (login && location.hash.length > 1) {
    login.elements.code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    login.requestSubmit();
  }

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

  // Every few seconds, while the page is seen and nothing is being written or read in it, the page itself is asked for again.
  if (main && main.hasAttribute("data-refresh")) {
    const busy = () => {
      const active = document.activeElement;
      const opened = main.querySelector("details[open]:not([data-open])");
      const typed = [...main.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);
      return document.hidden || opened || typed || (active && active.closest("input, textarea, select, iframe"));
    };
    let tag = null;
    setInterval(async () => {
      if (busy()) return;
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        const now = answer.headers.get("etag");
        if (!answer.ok || (tag && now === tag)) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        tag = now;
        if (!fresh || busy() || fresh.innerHTML === main.innerHTML) return;
        const focused = document.activeElement && document.activeElement.getAttribute("href");
        main.replaceChildren(...fresh.childNodes);
        const again = focused && main.querySelector(`a[href="${CSS.escape(focused)}"]`);
        if (again) again.focus({ preventScroll: true });
      } catch { /* the engine is away; the next look may find it */ }
    }, 15000);
  }
})();
