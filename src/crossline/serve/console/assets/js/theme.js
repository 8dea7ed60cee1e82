// The theme and the density of the profile are seen as they are chosen; they are kept when the form is sent.

export function startTheme() {
  const root = document.documentElement;
  document.getElementById("f-theme")?.addEventListener("change", ({ target }) => {
    if (target.value === "system") delete root.dataset.theme;
    else root.dataset.theme = target.value;
  });
  document.getElementById("f-density")?.addEventListener("change", ({ target }) => {
    root.dataset.density = target.value;
  });
}
