/** The formats of JSON Schema that are supported, as expressions: each text of theirs is valid, though not each valid one is theirs. */
import { refused } from '../failure.js';
import { shown } from '../../shared/shown.js';
import { parseRegex } from '../regex.js';

const BYTE = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = `${BYTE}(\\.${BYTE}){3}`;
const H = '[\\da-fA-F]{1,4}';
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const HOST = `${LABEL}(\\.${LABEL}){0,2}`;
const MONTH = '((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))';
const DATE = `\\d{3}[1-9]-${MONTH}`;
const TIME = '([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-](0\\d|1[0-4]):[0-5]\\d)';
const CHAR = "[A-Za-z0-9._~!$&'()*+,;=:@/-]";
const POINTER = '(/([^/~]|~[01])*)*';

/** @type {Record<string, string>} */
const FORMATS = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration:
    'P(\\d{1,4}W|\\d{1,4}Y(\\d{1,2}M(\\d{1,2}D)?)?|\\d{1,2}M(\\d{1,2}D)?|\\d{1,3}D|(\\d{1,3}D)?T(\\d{1,3}H(\\d{1,2}M(\\d{1,2}S)?)?|\\d{1,3}M(\\d{1,2}S)?|\\d{1,4}S))',
  email: `[A-Za-z0-9_+-]{1,20}(\\.[A-Za-z0-9_+-]{1,20}){0,2}@[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?){0,2}\\.[A-Za-z]{2,10}`,
  hostname: HOST,
  ipv4: IPV4,
  ipv6: `(${H}:){7}${H}|(${H}:){1,6}:${H}|::(${H}:){0,5}${H}|::`,
  uri: `(https?|ftp)://${HOST}(:\\d{1,4})?(/${CHAR}*)?(\\?${CHAR}*)?(#${CHAR}*)?`,
  'uri-reference': `(/${CHAR}*)?(\\?${CHAR}*)?(#${CHAR}*)?`,
  uuid: '[\\da-f]{8}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{12}',
  'json-pointer': POINTER,
  'relative-json-pointer': `(0|[1-9]\\d{0,3})(#|${POINTER})`,
  regex: '[A-Za-z0-9 _-]*',
  byte: '([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?',
};

const URI = FORMATS.uri;
Object.assign(FORMATS, {
  url: URI,
  'idn-email': FORMATS.email,
  'idn-hostname': HOST,
  iri: URI,
  'iri-reference': FORMATS['uri-reference'],
  'uri-template': `https?://${HOST}(/[A-Za-z0-9._~-]*)*`,
});

/**
 * Formats of numbers, as OpenAPI and Rust's tools write them: what their integers lie between, what doubles hold of them.
 * @type {Map<unknown, readonly [number, number] | null>}
 */
export const NUMBER_FORMATS = new Map([
  ...[8, 16, 32].flatMap((bits) => [
    /** @type {const} */ ([`int${bits}`, [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]]),
    /** @type {const} */ ([`uint${bits}`, [0, 2 ** bits - 1]]),
  ]),
  ['int64', [-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]],
  ['uint64', [0, Number.MAX_SAFE_INTEGER]],
  ['uint', [0, Number.MAX_SAFE_INTEGER]],
  ['float', null],
  ['double', null],
]);
/** Formats that say nothing of a value. @type {Set<unknown>} */
export const SHOWN_FORMATS = new Set(['password', 'binary']);

/** GRAMMAR: it is none of these. @param {unknown} name */
export function formatTree(name) {
  if (typeof name !== 'string' || !Object.hasOwn(FORMATS, name))
    throw refused(`the format ${shown(name)} is not supported`, `supported are ${Object.keys(FORMATS).join(', ')}`);
  return parseRegex(FORMATS[name]).tree;
}
