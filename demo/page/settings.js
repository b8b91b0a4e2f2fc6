/** The settings of a conversation: its system prompt and its sampling options. Changes apply from the next reply on. */
import { element } from './element.js';
import { loadSettings, saveSettings } from '../storage/local-storage.js';

/**
 * Defaults for small models, which repeat themselves or lose the thread with more randomness. Recommendations in
 * models/catalogue.js take precedence.
 */
const DEFAULTS = {
  temperature: 0.6,
  topK: 40,
  topP: 0.9,
  minP: 0,
  repeatPenalty: 1.1,
  maxTokens: /** @type {number | null} */ (null),
  seed: /** @type {number | null} */ (null),
};

/**
 * `maxTokens` null: until the reply ends or the context is full; `seed` null: random.
 * @typedef {typeof DEFAULTS} Values
 */
/** @typedef {{ system: string, sampling: Record<string, unknown> | null }} Chosen */

/** @type {{ name: string, system?: string, sampling: Partial<Values> }[]} */
const PRESETS = [
  { name: 'Default', system: '', sampling: {} },
  { name: 'Precise (same answer every time)', sampling: { temperature: 0, repeatPenalty: 1 } },
  { name: 'Creative', sampling: { temperature: 1, topP: 0.95, minP: 0.05 } },
  { name: 'Brief answers', system: 'Answer in one or two short sentences.', sampling: { temperature: 0.4 } },
  {
    name: 'Patient teacher',
    system: 'You are a patient teacher. Explain step by step, in simple words, with an example.',
    sampling: { temperature: 0.5 },
  },
];

export class Settings {
  #form;
  #preset;
  #system;
  #onChange;
  /** Defaults of the model in use. @type {Values} */
  #defaults = DEFAULTS;
  /** Settings chosen by the user. @type {Record<string, unknown>} */
  #chosen = {};

  /**
   * @param {{ form: HTMLFormElement, preset: HTMLSelectElement, system: HTMLTextAreaElement, reset: HTMLElement }} parts
   * @param {(chosen: Chosen) => void} onChange
   */
  constructor({ form, preset, system, reset }, onChange) {
    this.#form = form;
    this.#preset = preset;
    this.#system = system;
    this.#onChange = onChange;
    preset.append(
      ...['', ...PRESETS.map(({ name }) => name)].map((name) => {
        const option = element('option', '', name || 'Custom');
        option.value = name;
        return option;
      }),
    );
    form.addEventListener('input', ({ target }) => {
      const { name } = /** @type {HTMLInputElement} */ (target);
      this.#chosen = { ...this.#chosen, [name]: this.#read()[/** @type {keyof Values} */ (name)] };
      this.#changed();
    });
    // When a field is left, a number out of bounds is replaced with the one in use.
    form.addEventListener('change', () => this.#fill());
    form.addEventListener('submit', (event) => event.preventDefault());
    system.addEventListener('input', () => this.#changed());
    preset.addEventListener('change', () => {
      const preset = PRESETS.find(({ name }) => name === this.#preset.value);
      if (preset) this.#use(preset.sampling, preset.system);
    });
    reset.addEventListener('click', () => this.#use({}));
  }

  /** Shows the settings of a conversation. @param {Chosen} chosen */
  show({ system, sampling }) {
    this.#system.value = system;
    this.#chosen = sampling ?? loadSettings();
    this.#fill();
  }

  /** Recommended settings of the model. @param {Partial<Values>} sampling */
  set recommended(sampling) {
    this.#defaults = { ...DEFAULTS, ...sampling };
    this.#fill();
  }

  /** @returns {Values}  each number within the bounds of its field */
  get values() {
    return this.#read();
  }

  /** @returns {Values} */
  #read() {
    const values = { ...this.#defaults };
    for (const field of this.#fields()) {
      const name = /** @type {keyof Values} */ (field.name);
      const number = field.value.trim() === '' ? NaN : Number(field.value);
      if (!Number.isFinite(number)) continue;
      const within = Math.min(Math.max(number, Number(field.min)), Number(field.max));
      values[name] = field.step === '1' ? Math.round(within) : within;
    }
    return values;
  }

  /** @param {Partial<Values>} sampling @param {string} [system] */
  #use(sampling, system) {
    if (system !== undefined) this.#system.value = system;
    this.#chosen = { ...sampling };
    this.#fill();
    this.#changed();
  }

  #changed() {
    this.#labels();
    this.#name();
    saveSettings(this.#chosen);
    this.#onChange({ system: this.#system.value, sampling: this.#chosen });
  }

  /** Selects the preset that is equal to the settings. */
  #name() {
    const now = JSON.stringify({ ...this.#read(), seed: null });
    const same = (/** @type {Partial<Values>} */ sampling) =>
      JSON.stringify({ ...this.#defaults, ...sampling }) === now;
    const preset = PRESETS.find(({ system = '', sampling }) => same(sampling) && system === this.#system.value);
    this.#preset.value = preset?.name ?? '';
  }

  #fill() {
    const values = /** @type {Record<string, unknown>} */ ({ ...this.#defaults, ...this.#chosen });
    for (const field of this.#fields()) {
      const value = values[field.name];
      field.value = typeof value === 'number' ? String(value) : '';
    }
    this.#labels();
    this.#name();
  }

  /** Shows the values of the sliders. */
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
