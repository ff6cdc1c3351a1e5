// Runs side by side: what changed most in each, as bars, and the table of all ranges.

/** Bars of ranges that became slower, and of ranges that became faster. */
const SLOWER_BARS = 5;
const FASTER_BARS = 3;
/** Rows of the table above a timeline; by itself it has room. */
const COMPARED_ROWS = 10;

/** What is known of the process of a run. */
function processOf(one) {
  const said = one.identity.map(([label, value]) => label + ' ' + value);
  if (one.started_ms) said.push(startOf(one));
  return said.join(' \u00b7 ');
}

function showComparison() {
  const { comparison } = run;
  byId('comparison').hidden = !comparison;
  if (!comparison) return;
  const { table, runs } = comparison;
  const [base, ...others] = runs;
  byId('comparison-title').textContent = base ? 'Compared with ' + base.name : 'Comparison';
  byId('base-run').textContent = base ? processOf(base) : '';
  if (base) byId('base-run').title = base.command;
  const differences = others.flatMap((one) => table.rows.map((row) => Math.abs(row[one.first + 2] || 0)));
  table.most = differences.reduce((most, one) => Math.max(most, one), 1);
  table.groups = new Map(runs.map((one) => [one.first, one.name]));
  byId('changes').replaceChildren(...others.map((one) => changesOf(one, table)));
  sheets.comparison.table = table;
  if (run.is_run) sheets.comparison.shown = COMPARED_ROWS;
  showTable(sheets.comparison);
}

/** A run beside the first: in words, and the ranges that changed most. */
function changesOf(one, table) {
  const [difference, ratio] = [one.first + 2, one.first + 3];
  const changed = table.rows.filter((row) => row[difference]);
  const slower = changed.filter((row) => row[difference] > 0).sort((a, b) => b[difference] - a[difference]);
  const faster = changed.filter((row) => row[difference] < 0).sort((a, b) => a[difference] - b[difference]);
  const entries = [...slower.slice(0, SLOWER_BARS), ...faster.slice(0, FASTER_BARS)].map((row) => {
    const paint = (bar) => bar.classList.add(row[difference] > 0 ? 'slower' : 'faster');
    const figures = [WRITTEN.difference(row[difference]), written(row[ratio], 'ratio')];
    const label = row[0] + (row.includes('StartEnd', 1) ? ' (start/end)' : '');
    return barEntry(row[0], Math.abs(row[difference]) / table.most, figures, ' in ' + one.name, paint, label);
  });
  const list = element('ol', 'bars', ...entries);
  const rest = changed.length - entries.length;
  if (rest > 0) list.append(element('li', 'quiet', 'and ' + counted(rest, 'smaller change', 'smaller changes')));
  const process = element('span', 'quiet', processOf(one));
  process.title = one.command;
  const verdict = element('p', one.slower ? 'verdict slower' : 'verdict', one.verdict);
  return element('section', '', element('h2', '', one.name), process, verdict, list);
}
