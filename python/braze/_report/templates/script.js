// Searching, filtering and folding. Everything is readable without it.
(() => {
  const root = document.documentElement;
  root.classList.add("with-script");
  const every = (selector) => [...document.querySelectorAll(selector)];

  const theme = document.getElementById("theme");
  theme?.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });

  const fold = (open) => every("details").forEach((each) => { each.open = open; });
  document.getElementById("unfold")?.addEventListener("click", () => fold(true));
  document.getElementById("fold")?.addEventListener("click", () => fold(false));

  // Rows are what can be found: they say what they are about in data-text, and what kind they are in data-kind.
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const hiddenKinds = new Set();
  const rows = every("[data-text]");
  const texts = rows.map((row) => row.dataset.text.toLowerCase());

  const apply = () => {
    const words = (search?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, number) => {
      const fits = words.every((word) => texts[number].includes(word)) && !hiddenKinds.has(row.dataset.kind);
      row.hidden = !fits;
      if (fits) count += 1;
      if (fits && words.length) {
        for (let at = row.parentElement?.closest("details"); at; at = at.parentElement?.closest("details")) at.open = true;
      }
    });
    if (found) found.textContent = words.length || hiddenKinds.size ? `${count} of ${rows.length}` : "";
  };
  search?.addEventListener("input", apply);
  every("button[data-kind]").forEach((button) => button.addEventListener("click", () => {
    const kind = button.dataset.kind;
    if (!hiddenKinds.delete(kind)) hiddenKinds.add(kind);
    button.setAttribute("aria-pressed", String(!hiddenKinds.has(kind)));
    apply();
  }));

  // What a link leads to is unfolded.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement?.closest("details")) if (at.tagName === "DETAILS") at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
