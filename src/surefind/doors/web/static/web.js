// What the pages do besides links and forms: keys of the search page, a mark while something loads, filters on phones.
"use strict";
(() => {
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
  const hits = () => [...document.querySelectorAll(".hit a.open")];

  function move(step) {
    const all = hits();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement.closest(".hit")?.querySelector("a.open"));
    all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const box = document.getElementById("query");
    if (event.target === box && event.key === "ArrowDown") {
      event.preventDefault();
      move(1);
    }
    if (typing(event.target)) return;
    if (event.key === "/" && box) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "w") {
      const why = document.activeElement.closest(".hit")?.querySelector("details.why");
      if (why) why.open = !why.open;
    }
  });

  for (const [name, busy] of [["htmx:beforeRequest", "true"], ["htmx:afterRequest", "false"]])
    document.addEventListener(name, (event) => event.detail.target?.setAttribute("aria-busy", busy));

  // On a phone the filters are a sheet that opens when it is asked for.
  const fold = () => {
    if (matchMedia("(max-width: 52rem)").matches) document.querySelector("details.rail")?.removeAttribute("open");
  };
  fold();
  document.addEventListener("htmx:afterSwap", (event) => event.detail.target?.id === "found" && fold());

  // The server cannot be reached: say so, and keep what was typed.
  document.addEventListener("htmx:sendError", (event) => {
    const said = document.createElement("p");
    said.className = "notice bad";
    said.setAttribute("role", "alert");
    said.textContent = "The server does not answer. Check your connection, and try again.";
    event.detail.target?.replaceChildren(said);
  });
})();
