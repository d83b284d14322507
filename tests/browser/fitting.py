"""What of a page does not fit where it stands, asked in the page itself.

Each question looks at things of one kind and gives a list for each of those that it has looked at.
"""

from __future__ import annotations

from playwright.sync_api import Page

CHARTS = """() => [...document.querySelectorAll('.js-plotly-plot')].map(chart => {
  const whole = chart.getBoundingClientRect(), astray = [];
  const plot = chart.querySelector('.nsewdrag')?.getBoundingClientRect();
  if (!whole.width || !plot) return null;
  for (const text of chart.querySelectorAll('svg text')) {
    const {left, right, width} = text.getBoundingClientRect();
    if (width && (left < whole.left - 1 || right > whole.right + 1))
      astray.push(`cut: ${text.textContent}`);
  }
  const names = chart.querySelector('.legend .bg')?.getBoundingClientRect();
  const over = names && names.top < plot.bottom - 1 && names.bottom > plot.top + 1
    && names.left < plot.right && names.right > plot.left;
  if (over) astray.push(`on the plot: ${chart.querySelector('.legend').textContent}`);
  for (const text of chart.querySelectorAll('.scatterlayer text'))
    astray.push(`on a line: ${text.textContent}`);
  return astray;
}).filter(Boolean)"""
"""Words of charts that are cut, and names that lie on what they name."""
SLANTED = """() => [...document.querySelectorAll('.js-plotly-plot')].map(chart => {
  const words = [...chart.querySelectorAll('.xtick text')].filter(text => text.textContent);
  if (words.length < 2) return null;
  return words.slice(1).flatMap((text, i) => {
    const [end, before] = [text, words[i]].map(word => word.getBoundingClientRect().right);
    const turned = /rotate\\((-?[\\d.]+)/.exec(text.getAttribute('transform') ?? '');
    const apart = (end - before) * Math.sin(Math.abs(turned?.[1] ?? 90) * Math.PI / 180);
    return apart < 1.1 * parseFloat(getComputedStyle(text).fontSize) ? [text.textContent] : [];
  });
}).filter(Boolean)"""
"""Slanted words below a chart that touch the word before."""
CHOICES = """() => [
  ...document.querySelectorAll('[data-testid="stMultiSelectTagsContainer"]'),
  ...document.querySelectorAll('[data-testid="stSelectbox"] input'),
].filter(field => field.clientWidth).map(field =>
  field.scrollWidth > field.clientWidth ? [field.value || field.textContent] : [])"""
"""What was chosen in a field that is too narrow for it."""
OPEN = """() => [...document.querySelectorAll('[data-testid="stButtonGroup"]')].map(group => {
  const buttons = [...group.querySelectorAll('button')];
  return buttons.filter((button, i) => (!i || button.offsetTop > buttons[i - 1].offsetTop)
    && /, 0\\)$/.test(getComputedStyle(button).borderLeftColor)).map(button => button.innerText);
})"""
"""Buttons at the start of a line that have no border there."""


def misfits(page: Page, question: str) -> list[str]:
    """What does not fit; fails where the page has nothing that the question looks at."""
    found: list[list[str]] = page.evaluate(question)
    assert found, f"nothing was looked at by {question}"
    return [misfit for each in found for misfit in each]
