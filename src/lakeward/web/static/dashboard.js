"use strict";
// The slash key goes to the search, as on other sites.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = document.getElementById("search");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});

// Parts that follow the lake ask for themselves again when it has changed, while they are seen.
if (document.querySelector("[hx-trigger*='lake-changed']")) {
  let source = null;
  const listen = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource("/events");
      source.addEventListener("changed", () => document.body.dispatchEvent(new Event("lake-changed")));
    }
  };
  document.addEventListener("visibilitychange", listen);
  window.addEventListener("pagehide", () => source && source.close());
  listen();
}
