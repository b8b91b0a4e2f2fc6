/** The sampling form: what is typed is checked, kept, and used from the next reply on. */
import { loadSettings, saveSettings } from './store.js';

/** Careful enough for a small model: it repeats itself and wanders off with more freedom. */
export const DEFAULTS = { temperature: 0.6, topK: 40, topP: 0.9, minP: 0, repeatPenalty: 1.1, maxTokens: 256, seed: /** @type {number | null} */ (null) };

/** @typedef {typeof DEFAULTS} Settings */

export class SettingsForm {
  #form;

  /** @param {HTMLFormElement} form @param {HTMLElement} reset */
  constructor(form, reset) {
    this.#form = form;
    this.#show({ ...DEFAULTS, ...loadSettings() });
    form.addEventListener('input', () => this.#changed());
    // A number out of bounds becomes what is really used as soon as the person goes on.
    form.addEventListener('change', () => this.#show(this.values));
    form.addEventListener('submit', (event) => event.preventDefault());
    reset.addEventListener('click', () => {
      this.#show(DEFAULTS);
      this.#changed();
    });
  }

  /** @returns {Settings}  every number within the bounds of its field */
  get values() {
    const values = { ...DEFAULTS };
    for (const field of this.#fields()) {
      const name = /** @type {keyof Settings} */ (field.name);
      const number = field.value.trim() === '' ? NaN : Number(field.value);
      if (!Number.isFinite(number)) continue;
      const within = Math.min(Math.max(number, Number(field.min)), Number(field.max));
      values[name] = field.step === '1' ? Math.round(within) : within;
    }
    return values;
  }

  #changed() {
    this.#labels();
    saveSettings(this.values);
  }

  /** @param {Record<string, unknown>} values */
  #show(values) {
    for (const field of this.#fields()) {
      const value = values[field.name];
      field.value = typeof value === 'number' ? String(value) : '';
    }
    this.#labels();
  }

  /** What a slider stands at. */
  #labels() {
    for (const field of this.#fields()) {
      const value = field.closest('label')?.querySelector('.value');
      if (value) value.textContent = Number(field.value).toFixed(2);
    }
  }

  #fields() {
    return [...this.#form.querySelectorAll('input')];
  }
}
