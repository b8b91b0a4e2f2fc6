/**
 * Converts errors to OpenAI's form, a status and `{ error: { message, type, param, code } }`, and back. A server sends
 * this form for a BqError, and a client converts it to a BqError. `hint` and `details` are extensions of bq4.
 */
import { BqError } from '../../shared/errors.js';
import { isPath } from './check-fields.js';

/** @import { ErrorCode } from '../../shared/types.js' */

/**
 * Error codes by HTTP status: the request is invalid (400), or may succeed later (503).
 * @type {[status: number, codes: ErrorCode[]][]}
 */
const STATUSES = [
  [
    400,
    ['ARGUMENT', 'GRAMMAR', 'FORMAT', 'UNSUPPORTED', 'MISMATCH', 'NO_CHAT', 'CONTEXT_FULL', 'NO_TOKEN', 'TEMPLATE'],
  ],
  [503, ['NOMEM', 'CLOSED', 'NO_SESSION']],
];

/** Returns the HTTP status of an error code. Undefined means 500. @param {any} code @returns {number | undefined} */
const statusOf = (code) => STATUSES.find(([, codes]) => codes.includes(code))?.[0];

/** OpenAI's names of error codes. */
const NAMES = /** @type {const} */ ({ CONTEXT_FULL: 'context_length_exceeded', ARGUMENT: 'invalid_value' });

/** Returns OpenAI's error type for an HTTP status. @param {number} status */
export const typeOf = (status) =>
  status === 401
    ? 'authentication_error'
    : status === 403
      ? 'permission_error'
      : status === 404
        ? 'not_found_error'
        : status === 429
          ? 'rate_limit_error'
          : status < 500
            ? 'invalid_request_error'
            : 'server_error';

/**
 * @typedef {object} OpenAIError
 * @property {string} message
 * @property {string} type
 * @property {string | null} param
 * @property {string | null} code
 * @property {string} [hint]
 * @property {Record<string, any>} [details]
 */

/**
 * Returns the message of an error. If the context is full, it contains OpenAI's words, by which clients such as LiteLLM
 * recognize this error: they do not read its code.
 * @param {BqError} error
 */
const messageOf = ({ code, message, details: { most, context = most } }) =>
  code === 'CONTEXT_FULL' && context ? `${message}: this model's maximum context length is ${context} tokens` : message;

/** Converts an error to OpenAI's form. @param {unknown} error @returns {{ status: number, error: OpenAIError }} */
export function toOpenAIError(error) {
  if (!(error instanceof BqError))
    return { status: 500, error: { message: 'the server failed', type: typeOf(500), param: null, code: null } };
  const status = statusOf(error.code) ?? 500;
  const code = NAMES[/** @type {keyof typeof NAMES} */ (error.code)] ?? error.code;
  return {
    status,
    error: {
      message: messageOf(error),
      type: typeOf(status),
      param: isPath(error.details.param) ? error.details.param : null,
      code,
      hint: error.hint,
      details: error.details,
    },
  };
}

/**
 * Returns the error code of bq4 for a server's code, or null if there is none.
 * @param {unknown} code
 * @returns {ErrorCode | null}
 */
function codeOf(code) {
  const ownCode =
    Object.entries(NAMES).find(([, name]) => name === code)?.[0] ?? (statusOf(code) || code === 'TRAP' ? code : null);
  return /** @type {ErrorCode | null} */ (ownCode);
}

/** Codes of other servers for a prompt that is too long. */
const TOO_LONG = /context_length_exceeded|exceed_context_size/;

/**
 * Converts the answer of a server to a BqError.
 * @param {number} status
 * @param {any} body  body of the answer: OpenAI's error, or any other value
 * @param {string} [url]
 */
export function fromOpenAIError(status, body, url = '') {
  const answer = body?.error ?? body ?? {};
  const text = typeof answer === 'string' ? answer.slice(0, 300) : answer.message;
  const message = typeof text === 'string' && text ? text : `the server responded with HTTP ${status}`;
  const code = codeOf(answer.code) ?? (TOO_LONG.test(`${answer.code} ${answer.type}`) ? 'CONTEXT_FULL' : 'HTTP_STATUS');
  const hint = answer.hint ?? (code === 'HTTP_STATUS' ? (HINTS[status] ?? '') : undefined);
  const details = {
    ...answer.details,
    status,
    type: answer.type ?? null,
    code: answer.code ?? null,
    param: answer.param ?? null,
    ...(url && { url }),
  };
  return new BqError(code, message, { hint, details });
}

/** @type {Record<number, string>} */
const HINTS = {
  401: 'pass the token that the server was started with: connect(url, { apiKey })',
  403: 'allow the origin of this page on the server (bq4 serve --allow-origin)',
  404: 'check the address, which ends in /v1, and the name of the model',
  413: 'send a smaller request',
  429: 'try again later: the server is busy',
  503: 'try again later: the server is busy or still loading',
};
