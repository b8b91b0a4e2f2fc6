/** The settings of a conversation: what the model is told beforehand, and how it chooses words. Used from the next reply on. */
import { element } from './element.js';
import { loadSettings, saveSettings } from '../storage/local-storage.js';

/** Careful enough for a small model: it repeats itself and wanders off with more freedom. */
export const DEFAULTS = {
  temperature: 0.6,
  topK: 40,
  topP: 0.9,
  minP: 0,
  repeatPenalty: 1.1,
  maxTokens: 256,
  seed: /** @type {number | null} */ (null),
};

/** @typedef {typeof DEFAULTS} Settings */
/** @typedef {{ system: string, sampling: Record<string, unknown> | null }} Chosen */

/** @type {{ name: string, system?: string, sampling: Partial<Settings> }[]} */
const PRESETS = [
  { name: 'As usual', system: '', sampling: {} },
  { name: 'Exact: always the likeliest word', sampling: { temperature: 0, repeatPenalty: 1 } },
  { name: 'Lively', sampling: { temperature: 1, topP: 0.95, minP: 0.05 } },
  {
    name: 'Brief answers',
    system: 'Answer in one or two short sentences.',
    sampling: { temperature: 0.4, maxTokens: 128 },
  },
  {
    name: 'Patient teacher',
    system: 'You are a patient teacher. Explain step by step, in simple words, with an example.',
    sampling: { temperature: 0.5, maxTokens: 512 },
  },
];

export class SettingsForm {
  #form;
  #preset;
  #system;
  #onChange;

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
        const option = element('option', '', name || 'Own choice');
        option.value = name;
        return option;
      }),
    );
    form.addEventListener('input', () => this.#changed());
    // A number out of bounds becomes what is really used as soon as the person goes on.
    form.addEventListener('change', () => this.#fill(this.values));
    form.addEventListener('submit', (event) => event.preventDefault());
    system.addEventListener('input', () => this.#changed());
    preset.addEventListener('change', () => {
      const one = PRESETS.find(({ name }) => name === preset.value);
      if (one) this.#use(one.sampling, one.system);
    });
    reset.addEventListener('click', () => this.#use({}));
  }

  /** Those of a conversation. @param {Chosen} chosen */
  show({ system, sampling }) {
    this.#system.value = system;
    this.#fill({ ...DEFAULTS, ...(sampling ?? loadSettings()) });
    this.#name();
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

  /** @param {Partial<Settings>} sampling @param {string} [system] */
  #use(sampling, system) {
    if (system !== undefined) this.#system.value = system;
    this.#fill({ ...DEFAULTS, ...sampling });
    this.#changed();
  }

  #changed() {
    this.#labels();
    this.#name();
    saveSettings(this.values);
    this.#onChange({ system: this.#system.value, sampling: this.values });
  }

  /** Says which preset this is. */
  #name() {
    const now = { ...this.values, seed: null };
    const same = (/** @type {Partial<Settings>} */ sampling) =>
      JSON.stringify({ ...DEFAULTS, ...sampling }) === JSON.stringify(now);
    const one = PRESETS.find(({ system = '', sampling }) => same(sampling) && system === this.#system.value);
    this.#preset.value = one?.name ?? '';
  }

  /** @param {Record<string, unknown>} values */
  #fill(values) {
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
