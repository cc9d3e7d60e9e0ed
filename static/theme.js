// Before the first paint, so that a page never flashes in the other theme.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch (error) {
    console.info("no local storage: the theme follows the system", error);
  }
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
})();
