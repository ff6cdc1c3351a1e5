// Kernels of NCCL that wait in a collective operation for a rank that is late. What is not on this page is -1.

const lateWaits = (run.late ?? []).map(([item, last, process, wait, ranks, late]) => {
  return { item: item - 1, last: last - 1, process, wait, ranks, late };
});
/** By item, how it waits; by the late item, who waits for it, the longest wait first. */
const waitsForLate = new Map(lateWaits.filter(({ item }) => item >= 0).map((one) => [one.item, one]));
const waitersFor = Map.groupBy(
  lateWaits.filter(({ last }) => last >= 0),
  ({ last }) => last,
);

/** `waits 13.90 ms for rank 1 (4711)`, or `the last of 4 ranks, by 13.90 ms`; empty for others. */
function lateSays(item) {
  const own = waitsForLate.get(item);
  if (own) return 'waits ' + human(own.wait) + ' for ' + run.processes[own.process];
  const [first] = waitersFor.get(item) ?? [];
  return first ? 'the last of ' + integer(first.ranks) + ' ranks, by ' + human(first.late) : '';
}

/** The same with buttons that lead to the others. */
function lateLine(item) {
  const says = lateSays(item);
  if (!says) return '';
  const own = waitsForLate.get(item);
  const button = (other, label) => [' ', buttonFor(() => goToRank(other), 'by', label)];
  if (own) return element('p', 'linked', says, ...(own.last < 0 ? [] : button(own.last, 'Show it')));
  const known = waitersFor.get(item).filter((one) => one.item >= 0);
  const label = (one) => run.processes[processOfItem(one.item)] + ' ' + human(one.wait);
  const buttons = known.slice(0, MOST_LISTED).flatMap((one) => button(one.item, label(one)));
  const more = known.length > MOST_LISTED ? ' and ' + integer(known.length - MOST_LISTED) + ' more' : '';
  return element('p', 'linked', says + ':', ...buttons, more);
}

/** Selects a kernel of another rank. What is seen stays, if the kernel begins there. */
function goToRank(item) {
  const [start, half] = [run.start[item], (timeline.to - timeline.from) / 2];
  unfoldFor(item);
  select(item);
  if (start < timeline.from || start > timeline.to) show(start - half, start + half);
  bringUp(item);
  byId('details').querySelector('.linked button')?.focus({ preventScroll: true });
}
