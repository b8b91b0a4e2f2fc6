/**
 * Errors as OpenAI's interface tells them, a status and `{ error: { message, type, param, code } }`, both ways: what a server says
 * of a BqError, and the BqError that a client makes of it. `hint` and `details` are ours, beside what others know.
 */
import { ERRORS } from '../../shared/error-codes.js';
import { BqError } from '../../shared/errors.js';

/** @import { ErrorRow } from '../../shared/error-codes.js' */
/** @import { ErrorCode } from '../../shared/types.js' */

/** The status that says what a code is: js/shared/error-codes.js. @param {unknown} code @returns {number | undefined} */
const statusOf = (code) =>
  Object.hasOwn(ERRORS, String(code))
    ? /** @type {Record<string, ErrorRow>} */ (ERRORS)[String(code)].status
    : undefined;

/** What others call two of ours. */
const NAMES = /** @type {const} */ ({ CONTEXT_FULL: 'context_length_exceeded', ARGUMENT: 'invalid_value' });

/** By status, what OpenAI calls the kind of an error. @param {number} status */
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
 * @typedef {object} Told
 * @property {string} message
 * @property {string} type
 * @property {string | null} param
 * @property {string | null} code
 * @property {string} [hint]
 * @property {Record<string, any>} [details]
 */

/** @param {unknown} error @returns {{ status: number, error: Told }} */
export function tell(error) {
  if (!(error instanceof BqError))
    return { status: 500, error: { message: 'the server failed', type: typeOf(500), param: null, code: null } };
  const status = statusOf(error.code) ?? 500;
  const code = NAMES[/** @type {keyof typeof NAMES} */ (error.code)] ?? error.code;
  return {
    status,
    error: {
      message: error.message,
      type: typeOf(status),
      param: error.details.param ?? null,
      code,
      hint: error.hint,
      details: error.details,
    },
  };
}

/** Ours by the code that a server names. @param {unknown} code @returns {ErrorCode | null} */
function codeOf(code) {
  const known =
    Object.entries(NAMES).find(([, name]) => name === code)?.[0] ?? (statusOf(code) || code === 'TRAP' ? code : null);
  return /** @type {ErrorCode | null} */ (known);
}

/** What a server that isn't ours may call a prompt that is too long. */
const TOO_LONG = /context_length_exceeded|exceed_context_size/;

/**
 * @param {number} status
 * @param {any} body  what came with it: OpenAI's error, or anything else
 * @param {string} [url]
 */
export function understand(status, body, url = '') {
  const told = body?.error ?? body ?? {};
  const message = String(
    told.message ?? (typeof told === 'string' && told ? told.slice(0, 300) : `the server answered ${status}`),
  );
  const code = codeOf(told.code) ?? (TOO_LONG.test(`${told.code} ${told.type}`) ? 'CONTEXT_FULL' : 'HTTP_STATUS');
  const hint = told.hint ?? (code === 'HTTP_STATUS' ? (HINTS[status] ?? '') : undefined);
  const details = {
    ...told.details,
    status,
    type: told.type ?? null,
    code: told.code ?? null,
    param: told.param ?? null,
    ...(url && { url }),
  };
  return new BqError(code, message, { hint, details });
}

/** @type {Record<number, string>} */
const HINTS = {
  401: 'pass the token that the server was started with: connect(url, { token })',
  403: 'the server refuses this page: allow its origin there (bq4 serve --allow-origin)',
  404: 'check the address, which ends in /v1, and the name of the model',
  413: 'the request is larger than the server takes',
  429: 'the server is busy: try again later',
  503: 'the server is busy or still loading: try again later',
};
