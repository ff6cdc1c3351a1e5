// The strip of states of what is selected, and the chain of causes that is followed from one strip to the next.

/** Segments of a strip, and the part of it that the shortest takes. */
const MOST_SHOWN = 60;
/** Of a wait for what is not known: ranges of a thread that are looked at, names that are said, their least part. */
const MOST_MEANWHILE = 2000;
const SAID_MEANWHILE = 2;
const LEAST_MEANWHILE = 0.5;
/** A name that was on threads meanwhile is said if its part of the whole run is so many times smaller. */
const RARER = 1.5;

/** What was followed to get here: items, and in what state each led to the next. */
const chain = { links: [], following: false };

/** Segments that are too short to be seen, together; then as few as can be told apart. */
function shownStates(item) {
  const all = statesOf(item);
  const whole = Math.max(1, lengthOf(item));
  for (let least = whole / 300; ; least *= 2) {
    const found = [];
    for (const one of all) {
      if (one.to - one.from >= least) {
        found.push(one);
        continue;
      }
      const last = found.at(-1);
      if (last?.several) {
        last.to = one.to;
        last.several.push(one);
      } else found.push({ ...one, several: [one] });
    }
    if (found.length <= MOST_SHOWN) return found.map((one) => (one.several?.length === 1 ? one.several[0] : one));
  }
}

/** Whether a segment leads on: to who is to blame, or into the call in which the time went. */
function leadsTo({ state, target, path, item }, root) {
  if (target >= 0) return target;
  if (STATES[state].ends && item !== undefined && item !== root) return item;
  const inner = path.length > 1 ? calls.item[path.at(-1)] : root;
  return inner === root ? -1 : inner;
}

/** What is said of a segment below the strip. */
function sayMore(one, root) {
  const time = human(Math.round(one.to - one.from)) + ' (' + percent(one.to - one.from, lengthOf(root)) + ') ';
  if (one.several) {
    const longest = one.several.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
    return time + 'in ' + integer(one.several.length) + ' short states, the longest ' + longest.says;
  }
  const alike = statesOf(root).filter(({ says }) => says === one.says);
  const sum = alike.reduce((sum, { from, to }) => sum + to - from, 0);
  const all = human(Math.round(sum)) + ' (' + percent(sum, lengthOf(root)) + ')';
  const inAll = alike.length > 1 && all + ' ' !== time ? ', ' + all + ' in all' : '';
  const others = one.among > 1 ? '. ' + integer(one.among) + ' of this name were open then: this is one' : '';
  const evidence = one.pattern ? '. ' + evidenceOf(one.pattern) : '';
  const { ends } = STATES[one.state];
  const target = leadsTo(one, root);
  const next = target >= 0 ? '. A click leads to ' + nameOf(target) : ends ? '. It ends at ' + ends : '';
  const ofOwn = () => '. ' + percent(one.share, 1) + ' of its own time in ' + nameOf(one.item);
  const part = one.share < 1 ? ofOwn() + ' was so, and when is not recorded' : '';
  const off = one.state.startsWith('off') ? systemCall(nameOf(one.item ?? root)) : '';
  return time + one.says + inAll + part + others + evidence + off + next + '.';
}

/** The system call in which threads mostly were, in a range of a name off the CPU: samples of all of its name. */
const systemCall = remembered((name) => {
  const rows = (run.tables.find(({ title }) => title === 'Off CPU')?.rows ?? []).filter(([other]) => other === name);
  if (!rows.length) return '';
  const all = rows.reduce((sum, [, , , time]) => sum + time, 0);
  const [, call, of, time] = rows.reduce((a, b) => (b[3] > a[3] ? b : a));
  const said = call + (of ? ' of ' + of : '');
  return '. Of ' + name + ' off the CPU, ' + percent(time, all) + ' is ' + said + ', by samples';
});

/** For which part of the run a name was on any thread. */
const usualPart = remembered((name) => coveredBy(namedItems('ranges', name)) / Math.max(1, run.until));

/**
 * What threads did while something waited for what is not known: names that were there for most of that time, and for
 * less of the run. That proves nothing.
 */
function meanwhile({ from, to, state, several, item, path }, root) {
  if (several || !['wait', 'off', 'fresh', 'ready'].includes(state)) return '';
  const own = [root, item ?? root, ...[...path, ...callsAround(callOf(root))].map((call) => calls.item[call])];
  const names = new Set(own.filter((one) => one >= 0).map(nameOf));
  const found = new Map();
  for (const { tracks, process } of run.groups) {
    if ((process ?? 0) !== processOfItem(root)) continue;
    const row = tracks.find(({ part }) => part === 'ranges')?.rows[0];
    if (!row || (state === 'off' && row.group === rowOf(item ?? root).group)) continue;
    const first = firstIndex(row.first, row.last, (index) => run.end[index] > from);
    for (let index = first; index < row.last && run.start[index] < to; index++) {
      if (index - first > MOST_MEANWHILE) return '';
      const [begin, end] = [Math.max(from, run.start[index]), Math.min(to, run.end[index])];
      for (const part of onThread(index, begin, end, [], (to - from) / 100)) {
        const name = nameOf(part.item ?? index);
        if (names.has(name)) continue;
        const says = name + ' ' + STATES[part.state].says;
        if (!found.has(says)) found.set(says, { name, says, isOff: part.state.startsWith('off'), times: [] });
        found.get(says).times.push([part.from, part.to]);
      }
    }
  }
  const all = [...found.values()].map((one) => ({ ...one, part: timeOf(merged(one.times)) / (to - from) }));
  const most = all.filter(({ name, part }) => part >= LEAST_MEANWHILE && part >= RARER * usualPart(name));
  most.sort((a, b) => a.isOff - b.isOff || b.part - a.part);
  const said = most.slice(0, SAID_MEANWHILE).map(({ name, says, part }) => {
    const usually = ' of it (usually ' + percent(usualPart(name), 1) + ' of the time)';
    return says + ' for ' + percent(part, 1) + usually;
  });
  return said.length ? ' What made it wait is not known; meanwhile: ' + said.join(', ') + '.' : '';
}

/** The strip of an item: a button for each segment. Arrows go from one to the next. */
function stripOf(item) {
  const shown = shownStates(item);
  const isPlain = shown.length === 1 && shown[0].state !== 'off' && leadsTo(shown[0], item) < 0;
  if (isPlain && !chain.links.length) return [];
  const says = element('p', 'state-says');
  const whole = Math.max(1, lengthOf(item));
  const buttons = shown.map((one) => {
    const share = one.several ? '' : sayShare(one);
    const button = buttonFor(() => follow(item, one), 'state ' + STATES[one.state].look, share);
    button.style.flexGrow = (one.to - one.from) / whole;
    if (one.by && one.state !== 'cuda') button.style.setProperty('--color', colorOfName(one.by));
    button.tabIndex = -1;
    button.title = sayMore(one, item);
    button.setAttribute('aria-label', sayMore(one, item));
    const tell = () => {
      says.textContent = sayMore(one, item) + meanwhile(one, item);
      timeline.hovered = leadsTo(one, item);
      redraw();
    };
    button.addEventListener('focus', tell);
    button.addEventListener('pointerenter', tell);
    return button;
  });
  const most = shown.reduce((best, one, index) => (weightOf(one) > weightOf(shown[best]) ? index : best), 0);
  buttons[most].tabIndex = 0;
  says.textContent = sayMore(shown[most], item) + meanwhile(shown[most], item);
  const strip = element('div', 'states', ...buttons);
  strip.setAttribute('role', 'toolbar');
  strip.setAttribute('aria-label', 'What ' + nameOf(item).slice(0, 200) + ' did, from its start to its end');
  strip.addEventListener('keydown', (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === 'Backspace' && chain.links.length) backTo(chain.links.length - 1);
    else if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (!buttons[to]) return;
    buttons[at].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
  return [strip, says];
}

/** Of two segments that with the longer time; what is known counts more than what is not. */
function weightOf(one) {
  return one.several ? 0 : (one.to - one.from) * (one.target >= 0 ? 1.5 : 1);
}

/** From a segment to who is to blame: its lane is opened and shown at that time. */
function follow(item, one) {
  const target = one.several ? -1 : leadsTo(one, item);
  if (target < 0) {
    show(one.from - (one.to - one.from) * 0.1, one.to + (one.to - one.from) * 0.1);
    return;
  }
  goAlong([...chain.links, { item, says: one.says, from: one.from, to: one.to }], target);
  const margin = Math.max((one.to - one.from) * 0.3, 50);
  show(Math.min(one.from, Math.max(run.start[target], one.from - 3 * margin)) - margin, one.to + margin);
  bringUp(target);
}

function backTo(index) {
  goAlong(chain.links.slice(0, index), chain.links[index].item);
  reveal(timeline.selected);
}

/** Selects what a chain has led to. */
function goAlong(links, item) {
  chain.following = true;
  chain.links = links;
  unfoldFor(item);
  select(item);
  chain.following = false;
  focusStrip();
}

/** So that Enter follows what the strip says. */
function focusStrip() {
  const next = byId('details').querySelector('.states [tabindex="0"]');
  (next ?? byId('details').querySelector('.crumbs button:last-of-type'))?.focus({ preventScroll: true });
}

/** A suspect is never folded away. */
function unfoldFor(item) {
  const part = run.groups[rowOf(item).group];
  for (const group of timeline.all)
    if (group.key && group.parts.includes(part) && isFolded(group)) fold(group, false);
}

/** What was followed so far, as buttons that lead back. */
function crumbs() {
  if (!chain.links.length) return '';
  const parts = chain.links.flatMap(({ item, says, from, to }, index) => [
    buttonFor(() => backTo(index), '', nameOf(item) + ' ' + human(lengthOf(item))),
    element('span', 'quiet', ' ' + human(Math.round(to - from)) + ' ' + says + ' \u203a '),
  ]);
  const trail = element('nav', 'crumbs', ...parts);
  trail.setAttribute('aria-label', 'What was followed to get here');
  return trail;
}

/** Those who are to blame in the strip of an item: shown in lanes of their own below it. */
function suspectsOf(item) {
  const found = shownStates(item).filter(({ state, several }) => !several && STATES[state].look === 'held');
  const targets = found.filter(({ target }) => target >= 0 && target < firstOnStream).map(({ target }) => target);
  return [...new Set(targets)].slice(0, MOST_SHOWN).sort(byStart);
}
