/**
 * Access control: pages of other origins need permission, requests must use a name of this server (a page could make its name point
 * to this machine, "DNS rebinding"), and if the server has a token, clients must send it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { Refusal } from './refusal.js';

/** @import { IncomingMessage } from 'node:http' */

/**
 * @typedef {object} Rules
 * @property {string[]} origins  allowed origins of pages; '*': any
 * @property {string[]} hosts    names of the server, besides localhost and addresses
 * @property {string} token      '': no token is needed
 */

/** The name in a Host header, without its port. @param {string | undefined} host */
export const hostName = (host = '') =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1');

/** Whether a name is one of this server's. IP addresses can't be made to point elsewhere, and browsers keep localhost to this machine. @param {string} name @param {Pick<Rules, 'hosts'>} rules */
export const isOurs = (name, { hosts }) =>
  name === 'localhost' ||
  name.endsWith('.localhost') ||
  isIP(name) > 0 ||
  hosts.some((host) => hostName(host) === name);

/** @param {string} a @param {string} b */
function isSameToken(a, b) {
  const [x, y] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(x, y);
}

/**
 * CORS headers for a page of an allowed origin. Refusal.
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
      throw new Refusal(403, 'origin_refused', 'pages of other origins may not use this server');
    return {};
  }
  if (!rules.origins.includes('*') && !rules.origins.includes(origin))
    throw new Refusal(
      403,
      'origin_refused',
      `pages of ${origin} may not use this server: start it with --allow-origin ${origin} to allow them`,
    );
  return {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Expose-Headers': 'Retry-After, X-Request-Id',
    Vary: 'Origin',
  };
}

/** The answer to a CORS preflight. @param {IncomingMessage} request @returns {Record<string, string>} */
export function preflight({ headers }) {
  const requestHeaders = headers['access-control-request-headers'];
  return {
    'Access-Control-Allow-Methods': 'GET, POST',
    // Clients send various headers; all are fine once the origin is allowed.
    'Access-Control-Allow-Headers':
      requestHeaders && /^[\w, -]{1,2000}$/.test(requestHeaders) ? requestHeaders : 'Authorization, Content-Type',
    'Access-Control-Max-Age': '600',
    ...(headers['access-control-request-private-network'] && { 'Access-Control-Allow-Private-Network': 'true' }),
  };
}

/** Refuses a request without the token. @param {IncomingMessage} request @param {Rules} rules */
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
