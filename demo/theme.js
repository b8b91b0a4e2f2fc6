// Runs before the page is painted, so that it never flashes in the wrong colours: hence no module.
// `data-theme` is what the style sheet obeys (light or dark), `data-choice` what the person chose.
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
    // Around an installed page, in the colour of its paper.
    document
      .querySelector('meta[name=theme-color]')
      ?.setAttribute('content', root.dataset.theme === 'dark' ? '#0f1411' : '#f4f6f1');
    document.getElementById('theme')?.setAttribute('aria-label', name);
    document.getElementById('theme')?.setAttribute('title', name);
  };

  // What stands beside the conversation, as it was left: where it is shown late, the page jumps.
  try {
    const { panels = {} } = JSON.parse(localStorage.getItem('bq4.panels') ?? '{}');
    root.toggleAttribute('data-details', panels.details === true && matchMedia('(min-width: 64rem)').matches);
    const chats = Object.keys(localStorage).some((key) => key.startsWith('bq4.chat.'));
    root.toggleAttribute('data-sidebar', (panels.sidebar ?? chats) && matchMedia('(min-width: 80rem)').matches);
    const { kind = 'bundled' } = JSON.parse(localStorage.getItem('bq4.model') ?? '{}');
    root.toggleAttribute('data-tiny', kind === 'bundled');
    root.dataset.size = JSON.parse(localStorage.getItem('bq4.looks') ?? '{}').size ?? '';
  } catch {
    // Nothing is remembered.
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
        // It then lasts as long as the page.
      }
      apply();
    });
  });
})();
