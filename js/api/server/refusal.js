/** An error that refuses a request, with the status and the error object of the answer. */
import { shortened } from '../../shared/errors.js';
import { typeOf } from '../openai/errors.js';

export class Refusal extends Error {
  /**
   * @param {number} status  HTTP status
   * @param {string} code  code for programs, in OpenAI's style
   * @param {string} message
   * @param {Record<string, string>} [headers]
   * @param {string | null} [param]  field of the request
   */
  constructor(status, code, message, headers = {}, param = null) {
    super(shortened(message));
    this.name = 'Refusal';
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.param = param;
  }

  /** @returns {{ status: number, error: import('../openai/errors.js').OpenAIError }} */
  get answer() {
    return {
      status: this.status,
      error: { message: this.message, type: typeOf(this.status), param: this.param, code: this.code },
    };
  }
}
