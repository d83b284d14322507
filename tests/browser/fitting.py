"""What of a page does not fit where it stands, asked in the page itself; each gives a list."""

from __future__ import annotations

CHARTS = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(chart => {
  const whole = chart.getBoundingClientRect(), astray = [];
  const plot = chart.querySelector('.nsewdrag')?.getBoundingClientRect();
  if (!whole.width || !plot) return [];
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
})"""
"""Words of charts that are cut, and names that lie on what they name."""
SLANTED = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(chart => {
  const words = [...chart.querySelectorAll('.xtick text')].filter(text => text.textContent);
  return words.slice(1).flatMap((text, i) => {
    const [end, before] = [text, words[i]].map(word => word.getBoundingClientRect().right);
    const turned = /rotate\\((-?[\\d.]+)/.exec(text.getAttribute('transform') ?? '');
    const apart = (end - before) * Math.sin(Math.abs(turned?.[1] ?? 90) * Math.PI / 180);
    return apart < 1.1 * parseFloat(getComputedStyle(text).fontSize) ? [text.textContent] : [];
  });
})"""
"""Slanted words below a chart that touch the word before."""
CHOICES = """() => [
  ...document.querySelectorAll('[data-testid="stMultiSelectTagsContainer"]'),
  ...document.querySelectorAll('[data-testid="stSelectbox"] input'),
].filter(field => field.clientWidth && field.scrollWidth > field.clientWidth)
  .map(field => field.value || field.textContent)"""
"""What was chosen in a field that is too narrow for it."""
OPEN = """() => [...document.querySelectorAll('[data-testid="stButtonGroup"]')].flatMap(group => {
  const buttons = [...group.querySelectorAll('button')];
  return buttons.filter((button, i) => (!i || button.offsetTop > buttons[i - 1].offsetTop)
    && /, 0\\)$/.test(getComputedStyle(button).borderLeftColor)).map(button => button.innerText);
})"""
"""Buttons at the start of a line that have no border there."""
