/** The user's saved prompts, in localStorage. Loaded on demand. */
import { allowed, parsed, write } from './local-storage.js';

const KEY = 'bq4.prompts';

/** Returns the prompts, the newest first. @returns {{ name: string, text: string }[]} */
export function loadPrompts() {
  const { prompts } = parsed(allowed(() => localStorage.getItem(KEY), null)) ?? {};
  return (Array.isArray(prompts) ? prompts : []).filter((one) =>
    [one?.name, one?.text].every((part) => part && typeof part === 'string'),
  );
}

/** @param {{ name: string, text: string }[]} prompts @returns {boolean}  whether they were stored */
export const savePrompts = (prompts) => write(KEY, { prompts });
