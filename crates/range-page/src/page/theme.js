// Light and dark.

/** Twelve hues in two shades, of a lightness on which text is readable: see the test of their contrast. */
const PALETTES = {
  light: [
    '#a3cafd', '#feb392', '#8fdd9f', '#e9aff6', '#dfc76b', '#59dee5', '#fdb0af', '#c1c0fe',
    '#b6d580', '#fea9d1', '#f7ba71', '#65e0ca', '#6fa4e8', '#dd8963', '#69b67b', '#c189ce',
    '#b8a044', '#22b7be', '#e08384', '#9a97e6', '#91ae5b', '#d783ac', '#cf944a', '#36b9a4',
  ],
  dark: [
    '#4172af', '#a45936', '#39824c', '#8c5998', '#846f06', '#0e8085', '#a75355', '#6a66ad',
    '#617b2c', '#9f5379', '#986316', '#048272', '#285994', '#89401c', '#1d6835', '#73417e',
    '#695701', '#016569', '#8b3b3e', '#534d92', '#4a620b', '#843b61', '#7a4d04', '#05675a',
  ],
};
const SEVERITIES = {
  light: ['#5b6673', '#b3261e', '#9a5b00', '#1f62b5', '#5b6673', '#5b6673'],
  dark: ['#98a3b0', '#ff8a80', '#ffc266', '#8ab8ff', '#98a3b0', '#98a3b0'],
};

const theme = { name: 'light', palette: PALETTES.light, listeners: [] };
const darkPreferred = matchMedia('(prefers-color-scheme: dark)');

/** What the reader chose on this page before, if the browser keeps that for files. */
function chosenTheme() {
  try {
    return localStorage.getItem('tracing-gpu-theme');
  } catch {
    return null;
  }
}

function applyTheme() {
  const chosen = document.documentElement.dataset.theme;
  theme.name = chosen || (darkPreferred.matches ? 'dark' : 'light');
  theme.palette = PALETTES[theme.name];
  theme.severities = SEVERITIES[theme.name];
  theme.dim = theme.name === 'dark' ? 0.4 : 0.25;
  const root = document.documentElement;
  const style = getComputedStyle(root);
  const names = [
    'ground', 'panel', 'text', 'quiet', 'line', 'edge', 'accent', 'on-color', 'call', 'found', 'cpu', 'gpu',
  ];
  root.style.forcedColorAdjust = 'none'; // canvases keep their colours
  for (const name of names) {
    root.style.color = `var(--${name})`; // computed, it is one colour of the two
    theme[name] = style.color;
  }
  root.style.color = root.style.forcedColorAdjust = '';
  byId('theme').textContent = theme.name === 'dark' ? 'Light' : 'Dark';
  byId('theme').setAttribute('aria-label', 'Switch to the ' + (theme.name === 'dark' ? 'light' : 'dark') + ' theme');
  for (const listener of theme.listeners) listener();
}

function switchTheme() {
  const other = theme.name === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = other;
  try {
    localStorage.setItem('tracing-gpu-theme', other);
  } catch {
    // Not kept, then.
  }
  applyTheme();
}

document.documentElement.dataset.theme = chosenTheme() || '';
darkPreferred.addEventListener('change', applyTheme);
byId('theme').addEventListener('click', switchTheme);
