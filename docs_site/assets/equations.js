// Typesets what pymdownx.arithmatex has marked, also after instant navigation.
document$.subscribe(() => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    const display = text.startsWith("\\[");
    katex.render(text.slice(2, -2), element, { displayMode: display });
  }
});
