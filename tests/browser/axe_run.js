/* Runs axe in the page: every rule that may be serious looks at every element, contrast at two elements of each look
   among all pages of the test run. A look is what contrast depends on: the element's own style and that of all around
   it, and so the theme, too. `known` is the looks of earlier pages, as [look, how often seen] in JSON. */
async ({ serious, contrastAlone, whole, known }) => {
  const looks = new Map(JSON.parse(known).map(([look, times], number) => [look, { number, times }]));
  const seen = new Set();
  const visit = (element, around) => {
    const style = getComputedStyle(element);
    const speaks = [...element.childNodes].some((one) => one.nodeType === Node.TEXT_NODE && one.data.trim());
    const look = [
      around, element.tagName, element.className, speaks, element.matches(":disabled, [aria-disabled], [aria-hidden]"),
      style.color, style.backgroundColor, style.backgroundImage, style.opacity, style.fontSize, style.fontWeight,
      style.textShadow, style.display, style.visibility, style.position,
    ].join("|");
    const before = looks.get(look) ?? { number: looks.size, times: 0 };
    if (before.times === 2) seen.add(element);
    else looks.set(look, { ...before, times: before.times + 1 });
    for (const child of element.children) visit(child, before.number);
  };
  if (!whole) visit(document.documentElement, "");
  const after = JSON.stringify([...looks].map(([look, { times }]) => [look, times]));
  if (contrastAlone && after === known) return { violations: [], known };

  const rules = axe._audit.rules;
  const contrast = rules.find((rule) => rule.id === "color-contrast");
  const matches = contrast.matches;
  contrast.matches = (node, ...rest) => !seen.has(node) && matches.call(contrast, node, ...rest);
  const never = rules.filter((rule) => rule.impact && !serious.includes(rule.impact)); // by axe's own word on each
  const { violations } = await axe.run(document, {
    resultTypes: ["violations"], // what passed is not asked for: axe would describe each of its thousands of elements
    ...(contrastAlone
      ? { runOnly: [contrast.id] }
      : { rules: Object.fromEntries(never.map((rule) => [rule.id, { enabled: false }])) }),
  });
  contrast.matches = matches;
  return { violations: violations.filter((violation) => serious.includes(violation.impact)), known: after };
}
