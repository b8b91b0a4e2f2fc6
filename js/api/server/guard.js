/**
 * Who may ask: pages of other origins only where they were allowed, nobody under a name that isn't the server's (a page whose name
 * was made to point at this machine, "DNS rebinding"), and where there is a token only who knows it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { Refusal } from './refusal.js';

/** @import { IncomingMessage } from 'node:http' */

/**
 * @typedef {object} Rules
 * @property {string[]} origins  that pages may have; '*': any
 * @property {string[]} hosts    names of the server, besides localhost and addresses
 * @property {string} token      '': none is needed
 */

/** The name in a Host header, without its port. @param {string | undefined} host */
export const hostName = (host = '') =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1');

/** No name can be made to point elsewhere that is an address, and browsers keep localhost to this machine. @param {string} name @param {Pick<Rules, 'hosts'>} rules */
export const isOurs = (name, { hosts }) =>
  name === 'localhost' || name.endsWith('.localhost') || isIP(name) > 0 || hosts.some((one) => hostName(one) === name);

/** @param {string} a @param {string} b */
function same(a, b) {
  const [x, y] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(x, y);
}

/**
 * Headers for a page of another origin that may ask. Refusal.
 * @param {IncomingMessage} request @param {Rules} rules
 * @returns {Record<string, string>}
 */
export function checkOrigin({ headers }, rules) {
  const name = hostName(headers.host);
  if (!isOurs(name, rules))
    throw new Refusal(
      403,
      'host_refused',
      `this server is not called "${name}": start it with --allow-host ${name} if it is`,
    );
  const { origin } = headers;
  if (origin === undefined) {
    const site = headers['sec-fetch-site'];
    if (site === 'cross-site' || site === 'same-site')
      throw new Refusal(403, 'origin_refused', 'pages of other origins may not ask this server');
    return {};
  }
  if (!rules.origins.includes('*') && !rules.origins.includes(origin))
    throw new Refusal(
      403,
      'origin_refused',
      `pages of ${origin} may not ask this server: start it with --allow-origin ${origin} if they may`,
    );
  return {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Expose-Headers': 'Retry-After, X-Request-Id',
    Vary: 'Origin',
  };
}

/** What a browser asks before it sends a page's request. @param {IncomingMessage} request @returns {Record<string, string>} */
export function preflight({ headers }) {
  const asked = headers['access-control-request-headers'];
  return {
    'Access-Control-Allow-Methods': 'GET, POST',
    // Clients send headers of their own; which they may doesn't matter once the origin is allowed.
    'Access-Control-Allow-Headers': asked && /^[\w, -]{1,2000}$/.test(asked) ? asked : 'Authorization, Content-Type',
    'Access-Control-Max-Age': '600',
    ...(headers['access-control-request-private-network'] && { 'Access-Control-Allow-Private-Network': 'true' }),
  };
}

/** Refusal. @param {IncomingMessage} request @param {Rules} rules */
export function checkToken({ headers }, { token }) {
  const given = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
  if (!token || (given !== undefined && same(given, token))) return;
  throw new Refusal(
    401,
    'invalid_api_key',
    given === undefined ? 'a token is needed: Authorization: Bearer TOKEN' : 'the token is not the right one',
    { 'WWW-Authenticate': 'Bearer' },
  );
}
