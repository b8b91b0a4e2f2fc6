/**
 * Access control of the server. Pages of other origins need permission. Requests must use a name of this server,
 * because a page could let its own name resolve to this machine ("DNS rebinding"). If the server has a token, clients
 * must send it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { Refusal } from './refusal.js';

/** @import { IncomingMessage } from 'node:http' */

/**
 * @typedef {object} Rules
 * @property {string[]} origins  allowed origins of pages; '*' allows any
 * @property {string[]} hosts    names of the server, in addition to localhost and IP addresses
 * @property {string} token      '' if no token is needed
 */

/** Returns the name in a Host header, without the port. @param {string | undefined} host */
export const hostName = (host = '') =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1');

/**
 * Whether a name is one of this server's names. IP addresses are safe because they are not resolved, and browsers
 * always resolve localhost to this machine.
 * @param {string} name @param {Pick<Rules, 'hosts'>} rules
 */
export const isOurs = (name, { hosts }) =>
  name === 'localhost' ||
  name.endsWith('.localhost') ||
  isIP(name) > 0 ||
  hosts.some((host) => hostName(host) === name);

/** Compares tokens in a time that doesn't depend on their content. @param {string} a @param {string} b */
function isSameToken(a, b) {
  const [x, y] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(x, y);
}

/**
 * Checks the host and the origin of a request. Returns CORS headers for a page of an allowed origin. Throws a Refusal.
 * @param {IncomingMessage} request @param {Rules} rules
 * @returns {Record<string, string>}
 */
export function checkOrigin({ headers }, rules) {
  const name = hostName(headers.host);
  // Node refuses HTTP/1.1 without Host. Probes by HTTP/1.0 may omit it; browsers never do.
  if (headers.host !== undefined && !isOurs(name, rules))
    throw new Refusal(
      403,
      'host_refused',
      `"${name}" is not a host name of this server: start it with --allow-host ${name} to allow it`,
    );
  const { origin } = headers;
  if (origin === undefined) {
    const site = headers['sec-fetch-site'];
    if (site === 'cross-site' || site === 'same-site')
      throw new Refusal(403, 'origin_refused', 'pages of other origins are not allowed to use this server');
    return {};
  }
  if (!rules.origins.includes('*') && !rules.origins.includes(origin))
    throw new Refusal(
      403,
      'origin_refused',
      `pages of ${origin} are not allowed to use this server: start it with --allow-origin ${origin} to allow them`,
    );
  return {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Expose-Headers': 'Retry-After, X-Request-Id',
    Vary: 'Origin',
  };
}

/**
 * Returns the headers of the answer to a CORS preflight.
 * @param {IncomingMessage} request
 * @returns {Record<string, string>}
 */
export function preflight({ headers }) {
  const requestHeaders = headers['access-control-request-headers'];
  return {
    'Access-Control-Allow-Methods': 'GET, POST',
    // Clients send various headers. All are allowed, because the origin is checked.
    'Access-Control-Allow-Headers':
      requestHeaders && /^[\w, -]{1,2000}$/.test(requestHeaders) ? requestHeaders : 'Authorization, Content-Type',
    'Access-Control-Max-Age': '600',
    ...(headers['access-control-request-private-network'] && { 'Access-Control-Allow-Private-Network': 'true' }),
  };
}

/** Throws a Refusal for a request without the token. @param {IncomingMessage} request @param {Rules} rules */
export function checkToken({ headers }, { token }) {
  const sentToken = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
  if (!token || (sentToken !== undefined && isSameToken(sentToken, token))) return;
  throw new Refusal(
    401,
    'invalid_api_key',
    sentToken === undefined ? 'expected a token (Authorization: Bearer TOKEN), found none' : 'the token is wrong',
    { 'WWW-Authenticate': 'Bearer' },
  );
}
