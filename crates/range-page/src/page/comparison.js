// Runs side by side: what changed most in each, as bars, and the table of all ranges.

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
  const longest = others.flatMap((one) => one.changes).reduce((most, { ns }) => Math.max(most, Math.abs(ns)), 1);
  byId('changes').replaceChildren(...others.map((one) => changesOf(one, longest)));
  sheets.comparison.table = table;
  if (run.is_run) sheets.comparison.shown = COMPARED_ROWS;
  showTable(sheets.comparison);
}

/** A run beside the first: in words, and the ranges that changed most; bars of all runs by one measure. */
function changesOf(one, most) {
  const entries = one.changes.map(({ name, lifetime, ns, ratio }) => {
    const paint = (bar) => bar.classList.add(ns > 0 ? 'slower' : 'faster');
    const label = name + (lifetime ? ' (start/end)' : '');
    return barEntry(
      name,
      Math.abs(ns) / most,
      [WRITTEN.difference(ns), ratio],
      ' in ' + one.name + (one.by_own ? ', of its own' : ''),
      paint,
      label,
    );
  });
  const list = element('ol', 'bars', ...entries);
  if (one.more_changes > 0)
    list.append(element('li', 'quiet', 'and ' + counted(one.more_changes, 'smaller change', 'smaller changes')));
  const process = element('span', 'quiet', processOf(one));
  process.title = one.command;
  const verdict = element('p', one.slower ? 'verdict slower' : 'verdict', plain(one.verdict));
  const what = one.by_own && entries.length ? [element('p', 'quiet', 'Changes of own times:')] : [];
  return element('section', '', element('h2', '', one.name), process, verdict, ...what, list);
}
