/**
 * The formats of JSON Schema as regular expressions. Each text that matches is valid by the RFC of the format and for
 * ajv-formats, and nearly all valid texts match; docs/reference/generation.md names the exceptions.
 */
import { ANY, minimal, difference } from '../dfa.js';
import { dfaOfRegex } from '../lookaheads.js';
import { parseRegex } from '../regex.js';

/** @import { Dfa } from '../dfa.js' */

const HEX = '[\\dA-Fa-f]';
const PERCENT = `%${HEX}{2}`;

// RFC 3339. A leap second is the last second of a day in UTC. At an offset of n hours it ends another hour.
const HOUR = '([01]\\d|2[0-3])';
const LEAP_YEAR = '(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)';
const MONTH_DAY = '((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))';
const DATE = `(\\d{4}-${MONTH_DAY}|${LEAP_YEAR}-02-29)`;
const FRACTION = '(\\.\\d+)?';
const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
const LEAP_SECONDS = Array.from(
  { length: 24 },
  (_, hour) => `${two(hour)}:59:60${FRACTION}(\\+${two((hour + 1) % 24)}|-${two(23 - hour)}):00`,
).join('|');
const TIME = `(${HOUR}:[0-5]\\d:[0-5]\\d${FRACTION}([Zz]|[+-]${HOUR}:[0-5]\\d)|23:59:60${FRACTION}[Zz]|${LEAP_SECONDS})`;
const PERIOD = 'T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)';

// RFC 1123. Labels with hyphens at the third and fourth positions are excluded: RFC 5890 defines them, and no automaton
// can check it.
const L = '[A-Za-z0-9]';
const LH = '[A-Za-z0-9-]';
const LABEL = `${L}(${L}|${LH}${L}|${LH}{2}${L}|${LH}(${L}${LH}|-${L})${LH}{0,58}${L})?`;
const HOST = `${LABEL}(\\.${LABEL})*`;
const MAIL_LABEL = `${L}(${LH}{0,61}${L})?`;
const ATEXT = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
const DOTTED = `${ATEXT}+(\\.${ATEXT}+)*`;

// RFC 4291, in the notation of RFC 3986.
const BYTE = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = `${BYTE}(\\.${BYTE}){3}`;
const H16 = `${HEX}{1,4}`;
const LS32 = `(${H16}:${H16}|${IPV4})`;
const IPV6 = [
  `(${H16}:){6}${LS32}`,
  `::(${H16}:){5}${LS32}`,
  ...[4, 3, 2, 1, 0].map((n) => `((${H16}:){0,${4 - n}}${H16})?::(${H16}:){${n}}${LS32}`),
  `((${H16}:){0,5}${H16})?::${H16}`,
  `((${H16}:){0,6}${H16})?::`,
].join('|');

/**
 * Returns the expressions of URIs (RFC 3986), or of IRIs (RFC 3987) if further characters are given.
 * @param {string} letters  further characters that are allowed everywhere
 * @param {string} queried  further characters that are allowed in a query
 */
function references(letters, queried) {
  const unreserved = `A-Za-z0-9\\-._~${letters}`;
  const sub = "!$&'()*+,;=";
  const segment = (/** @type {string} */ extra) => `([${unreserved}${sub}${extra}]|${PERCENT})`;
  const char = segment(':@');
  const authority = `(${segment(':')}*@)?(\\[(${IPV6}|[vV]${HEX}+\\.[${unreserved}${sub}:]+)\\]|${segment('')}*)(:\\d*)?`;
  const path = `(/${char}*)*`;
  const rooted = `//${authority}${path}|/(${char}+${path})?`;
  const tail = `(\\?${segment(`:@/?${queried}`)}*)?(#${segment(':@/?')}*)?`;
  const scheme = '[A-Za-z][A-Za-z0-9+\\-.]*:';
  return {
    absolute: `${scheme}(${rooted}|${char}+${path})${tail}`,
    any: `(${scheme}(${rooted}|${char}+${path}|)|${rooted}|${segment('@')}+${path}|)${tail}`,
  };
}
const LETTERS =
  '\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef' +
  Array.from({ length: 14 }, (_, i) => `\\u{${(i + 1).toString(16)}0000}-\\u{${(i + 1).toString(16)}fffd}`).join('');
const PRIVATE = '\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}';
const URI = references('', '');
const IRI = references(LETTERS, PRIVATE);

// RFC 6570.
const VARIABLE = `([A-Za-z0-9_]|${PERCENT})+(:[1-9]\\d{0,3}|\\*)?`;
const TEMPLATE = `([!#$&()-;=?-[\\]_a-z~${LETTERS}${PRIVATE}]|${PERCENT}|\\{[+#./;?&]?${VARIABLE}(,${VARIABLE})*\\})*`;

const POINTER = '(/([^/~]|~[01])*)*';

// Expressions without lookarounds and back references, with groups nested at most two levels deep.
const ONE =
  '([^^$\\\\.*+?()[\\]{}|/]|\\.|\\\\[dDwWsS^$\\\\.*+?()[\\]{}|/]|\\[\\^?(a-z|A-Z|0-9|\\\\[dDwWsS]|[A-Za-z0-9_ .,:;@#%&])+\\])';
const TIMES = '([*+?]\\??|\\{(0|[1-9]\\d{0,2}),?\\})?';
const alternatives = (/** @type {string} */ part) => `((${part})${TIMES})*(\\|((${part})${TIMES})*)*`;
const group = (/** @type {string} */ part) => `\\((\\?:)?${alternatives(part)}\\)`;
const REGEX = `\\^?${alternatives(`${ONE}|${group(`${ONE}|${group(ONE)}`)}`)}\\$?`;

/**
 * Regular expression and maximum length of the strings of each format.
 * @type {Map<unknown, { source: string, max?: number }>}
 */
const FORMATS = new Map(
  Object.entries({
    date: { source: DATE },
    time: { source: TIME },
    'date-time': { source: `${DATE}[Tt]${TIME}` },
    duration: { source: `P((\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(${PERIOD})?|${PERIOD}|\\d+W)` },
    email: { source: `(?=[^@]{1,64}@)${DOTTED}@(${MAIL_LABEL}\\.)+${MAIL_LABEL}`, max: 254 },
    hostname: { source: HOST, max: 253 },
    ipv4: { source: IPV4 },
    ipv6: { source: IPV6 },
    uri: { source: URI.absolute },
    'uri-reference': { source: URI.any },
    uuid: { source: `${HEX}{8}(-${HEX}{4}){3}-${HEX}{12}` },
    'json-pointer': { source: POINTER },
    'relative-json-pointer': { source: `(0|[1-9]\\d*)(#|${POINTER})` },
    regex: { source: REGEX },
    byte: { source: '([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?' },
    iri: { source: IRI.absolute },
    'iri-reference': { source: IRI.any },
    'uri-template': { source: TEMPLATE },
    url: {
      source: `(https?|ftp)://((${L}+-)*${L}+\\.)+[A-Za-z]{2,}(:\\d{2,5})?(/([A-Za-z0-9\\-._~!$&'()*+,;=:@/]|${PERCENT})*${'(\\?Q*)?(#Q*)?'.replaceAll('Q', `([A-Za-z0-9\\-._~!$&'()*+,;=:@/?]|${PERCENT})`)})?`,
    },
  }),
);
// Of internationalized names, only the ASCII spellings are written.
for (const name of ['email', 'hostname']) FORMATS.set(`idn-${name}`, /** @type {any} */ (FORMATS.get(name)));

/**
 * Supersets of formats: all validators reject strings outside of them. They are the basis of "not" with a format. For
 * formats that are not listed, no string is known to be invalid.
 */
const WIDE = new Map(
  Object.entries({
    date: '\\d{4}-\\d\\d-\\d\\d',
    time: '\\d\\d:[^]*',
    'date-time': '\\d{4}-\\d\\d-\\d\\d\\D[^]*',
    duration: 'P[^]*',
    email: '[^]*@[^]*',
    'idn-email': '[^]*@[^]*',
    hostname: '[A-Za-z0-9.-]*',
    ipv4: '[\\d.]*',
    ipv6: '[^]*:[^]*',
    uri: '[A-Za-z][A-Za-z0-9+.-]*:[^]*',
    iri: '[A-Za-z][A-Za-z0-9+.-]*:[^]*',
    url: '[A-Za-z]+:[^]*',
    uuid: `([Uu][Rr][Nn]:[Uu]{2}[Ii][Dd]:)?${HEX}{8}(-${HEX}{4}){3}-${HEX}{12}`,
    'json-pointer': '(/[^]*)?',
    'relative-json-pointer': '\\d[^]*',
  }).map(([name, source]) => [name, source.replaceAll('[^]', '[\\s\\S]')]),
);

/** Returns strings that do not have a format, or null if none are known. @param {string} name @returns {Dfa | null} */
export function otherTexts(name) {
  const source = WIDE.get(name);
  return source ? difference(ANY, dfaOfRegex(parseRegex(source))) : null;
}

/**
 * Formats of numbers in schemas of OpenAPI and of Rust's tools: the range of integers, as far as doubles represent it
 * exactly. null: no range.
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
/** Formats that do not constrain values, only how they are shown. @type {Set<unknown>} */
export const SHOWN_FORMATS = new Set(['password', 'binary']);

/** Automata of formats, computed on demand, by regular expression. @type {Map<string, Dfa>} */
const dfas = new Map();

/**
 * Returns the strings of a format and their maximum length, or null if the format is not supported.
 * @param {unknown} name @returns {{ dfa: Dfa, max: number } | null}
 */
export function formatTexts(name) {
  const format = FORMATS.get(name);
  if (!format) return null;
  const dfa = dfas.get(format.source) ?? minimal(dfaOfRegex(parseRegex(format.source)));
  dfas.set(format.source, dfa);
  return { dfa, max: format.max ?? Infinity };
}

/** Whether a format is supported or does not constrain values. @param {unknown} name */
export const isFormat = (name) => FORMATS.has(name) || NUMBER_FORMATS.has(name) || SHOWN_FORMATS.has(name);
