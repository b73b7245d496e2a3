#include "tools/tjit/report_assets.h"

namespace tjit::tools {

// The colours of parts keep their order in both schemes: the first one is what
// runs by replaying, the last one is the rest.
const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --text: #1d2330; --soft: #5a6372; --line: #d5dae1;
  --raised: #f4f6f9; --accent: #0b5cad;
  --part0: #2a7f62; --part1: #6a4fb3; --part2: #c77d0a; --part3: #b8405e;
  --part4: #a8b0bc;
  --words: 13rem;  /* the narrowest that a column of words gets */
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171d; --text: #e3e7ee; --soft: #9aa4b3; --line: #333a46;
    --raised: #1d222b; --accent: #74b3f5;
    --part0: #4fb592; --part1: #9d86e0; --part2: #e5a545; --part3: #e0738f;
    --part4: #5c6675;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 1rem 1.25rem 4rem;
  background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: .5rem 0 0; }
h2 {
  font-size: 1.15rem; margin: 2.25rem 0 .5rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line);
}
p { margin: .5rem 0; max-width: 75ch; }
a { color: var(--accent); }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; }
.soft, caption { color: var(--soft); }
.tiles {
  display: grid; gap: .75rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
}
.tile {
  background: var(--raised); border: 1px solid var(--line);
  border-radius: 8px; padding: .6rem .8rem;
}
.tile dt { color: var(--soft); font-size: .85rem; }
.tile dd { margin: 0; font-size: 1.35rem; font-weight: 600; }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; padding: .25rem 0; font-size: .88rem; }
caption span {  /* stays in sight where the table is scrolled */
  display: inline-block; position: sticky; left: 0;
  max-width: min(75ch, calc(100vw - 3.5rem));
}
th, td {
  text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0;
  border-bottom: 1px solid var(--line);
}
td, td code { overflow-wrap: break-word; }
td[data-key=first_ops], td[data-key=doc], td[data-key=what],
td[data-key=remedy], td[data-key=why], td[data-key=from] {
  min-width: var(--words);
}
td.number, th.number { text-align: right; white-space: nowrap; width: 1%; }
th.number button { text-align: right; }
th button {
  all: unset; cursor: pointer; font-weight: 600; font-size: .88rem;
}
th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " \2191"; }
th[aria-sort=descending] button::after { content: " \2193"; }
.bar {
  display: flex; height: 26px; border-radius: 6px; overflow: hidden;
  background: var(--raised); margin: .75rem 0 .25rem;
}
.swatch {
  display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .5em;
}
.part0 { background: var(--part0); } .part1 { background: var(--part1); }
.part2 { background: var(--part2); } .part3 { background: var(--part3); }
.part4 { background: var(--part4); }
details {
  border: 1px solid var(--line); border-radius: 8px; margin: .6rem 0;
  padding: .5rem .8rem;
}
svg.tjit-timeline { width: 100%; min-width: 900px; height: auto; }
img.graph { background: #fff; max-width: none; }
summary { cursor: pointer; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  :root { --words: 9rem; }
  body { padding: .75rem .75rem 3rem; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .tile dd { font-size: 1.1rem; }
}
)css";

const char kReportScript[] = R"js(
'use strict';
// A click on a head sorts the rows by that column, a second one turns them.
function valueOf(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  return value === undefined ? cell.textContent : Number(value);
}
function compare(a, b) {
  return typeof a === 'number' && typeof b === 'number'
      ? a - b : String(a).localeCompare(String(b));
}
function sortBy(head) {
  const body = head.closest('table').tBodies[0];
  const column = head.cellIndex;
  const order = head.getAttribute('aria-sort');
  const descends = order === null
      ? head.classList.contains('number') : order === 'ascending';
  for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', descends ? 'descending' : 'ascending');
  const rows = Array.from(body.rows);
  rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column)));
  if (descends) rows.reverse();
  body.append(...rows);
}
for (const head of document.querySelectorAll('table.sortable th')) {
  head.addEventListener('click', () => sortBy(head));
}
)js";

const char kReportScriptHash[] =
    "sha256-JCaxGjymivlCpNgevebU8ibmnlKDS23/xoVB7ygg8+U=";

}  // namespace tjit::tools
