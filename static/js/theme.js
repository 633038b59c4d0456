/* Runs before the first paint, so that a chosen theme does not flash the other one. */
try {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is refused: the system's theme is used */ }
