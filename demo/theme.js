// Runs before the first paint, which modules do not, so that the page never flashes in the wrong colours.
// `data-theme` is the theme of the style sheet (light or dark), `data-choice` the user's choice (auto, light or dark).
(() => {
  const KEY = 'bq4.theme';
  const CHOICES = ['auto', 'light', 'dark'];
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)');

  const stored = () => {
    try {
      return localStorage.getItem(KEY) ?? '';
    } catch {
      return '';
    }
  };
  let choice = CHOICES.includes(stored()) ? stored() : 'auto';

  const apply = () => {
    root.dataset.choice = choice;
    root.dataset.theme = choice === 'auto' ? (dark.matches ? 'dark' : 'light') : choice;
    const name = `Theme: ${choice === 'auto' ? 'system' : choice}`;
    // Colour of the window around an installed page: that of its background.
    document
      .querySelector('meta[name=theme-color]')
      ?.setAttribute('content', root.dataset.theme === 'dark' ? '#0f1411' : '#f4f6f1');
    document.getElementById('theme')?.setAttribute('aria-label', name);
    document.getElementById('theme')?.setAttribute('title', name);
  };

  // Restores the panels beside the conversation before the first paint: later the page would jump.
  try {
    const { panels = {} } = JSON.parse(localStorage.getItem('bq4.panels') ?? '{}');
    root.toggleAttribute('data-details', panels.details === true && matchMedia('(min-width: 64rem)').matches);
    const chats = Object.keys(localStorage).some((key) => key.startsWith('bq4.chat.'));
    root.toggleAttribute('data-sidebar', (panels.sidebar ?? chats) && matchMedia('(min-width: 80rem)').matches);
    const { kind = 'bundled' } = JSON.parse(localStorage.getItem('bq4.model') ?? '{}');
    root.toggleAttribute('data-tiny', kind === 'bundled');
    root.dataset.size = JSON.parse(localStorage.getItem('bq4.looks') ?? '{}').size ?? '';
  } catch {
    // Storage is blocked or damaged: the defaults stay.
  }

  apply();
  dark.addEventListener('change', apply);
  document.addEventListener('DOMContentLoaded', () => {
    apply();
    document.getElementById('theme')?.addEventListener('click', () => {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      try {
        localStorage.setItem(KEY, choice);
      } catch {
        // The choice is then lost with the page.
      }
      apply();
    });
  });
})();
