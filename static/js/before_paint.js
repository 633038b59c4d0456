/* What has to be done before the first paint: the chosen theme, so that no other one flashes, and the folds. */
try {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is refused: the system's theme is used */ }

/* On a narrow page the facets start folded, so that the list is in view. They are folded as they are read, so that
   nothing moves. */
if (matchMedia("(width < 72rem)").matches) {
  const folding = new MutationObserver(() => {
    for (const details of document.querySelectorAll("[data-folds-narrow]:not([data-folded])")) {
      details.open = false;
      details.dataset.folded = "";
    }
  });
  folding.observe(document.documentElement, { childList: true, subtree: true });
  addEventListener("DOMContentLoaded", () => folding.disconnect(), { once: true });
}
