/** The formats of JSON Schema that are supported, as expressions: each text of theirs is valid, though not each valid one is theirs. */
import { refused } from '../failure.js';
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
};

const URI = FORMATS.uri;
Object.assign(FORMATS, {
  'idn-email': FORMATS.email,
  'idn-hostname': HOST,
  iri: URI,
  'iri-reference': FORMATS['uri-reference'],
  'uri-template': `https?://${HOST}(/[A-Za-z0-9._~-]*)*`,
});

/** GRAMMAR: it is none of these. @param {unknown} name */
export function formatTree(name) {
  if (typeof name !== 'string' || !Object.hasOwn(FORMATS, name))
    throw refused(`the format "${name}" is not supported`, `supported are ${Object.keys(FORMATS).join(', ')}`);
  return parseRegex(FORMATS[name]);
}
