/** A refused request: the status and the error of its answer. */
import { shortened } from '../../shared/errors.js';
import { typeOf } from '../openai/errors.js';

export class Refusal extends Error {
  /**
   * @param {number} status @param {string} code  in OpenAI's style, for programs
   * @param {string} message @param {Record<string, string>} [headers]
   */
  constructor(status, code, message, headers = {}) {
    super(shortened(message));
    this.name = 'Refusal';
    this.status = status;
    this.code = code;
    this.headers = headers;
  }

  /** @returns {{ status: number, error: import('../openai/errors.js').OpenAIError }} */
  get answer() {
    return {
      status: this.status,
      error: { message: this.message, type: typeOf(this.status), param: null, code: this.code },
    };
  }
}
