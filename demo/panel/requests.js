/**
 * Lists all requests of the page and its workers, as recorded by the browser. Loaded when its section is first opened.
 */
import { element } from '../page/element.js';
import * as format from '../page/format.js';
import { $ } from '../page/page.js';
import { allowed } from '../storage/local-storage.js';
import { recordedRequests } from './recorded-requests.js';

/** @import { RecordedRequest } from './recorded-requests.js' */

/** Milliseconds for which answers of workers are collected, and between updates of an open list. */
const [COLLECT, REFRESH] = [200, 2000];
/** Largest number of rows, the newest first. */
const MAX_ROWS = 200;

/** Returns the requests of the page itself. */
const ofPage = () => recordedRequests(['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type)));

/** Returns the requests of workers of this page, in all its tabs. @returns {Promise<RecordedRequest[]>} */
async function ofWorkers() {
  const channel = allowed(() => new BroadcastChannel('bq4-requests'), null);
  if (!channel) return []; // refused by a browser that blocks cookies
  /** @type {RecordedRequest[]} */
  const all = [];
  channel.addEventListener('message', ({ data }) => Array.isArray(data?.requests) && all.push(...data.requests));
  channel.postMessage('list');
  return new Promise((resolve) =>
    setTimeout(() => {
      channel.close();
      resolve(all);
    }, COLLECT),
  );
}

/** @param {RecordedRequest} request */
function rowOf({ url, at, bytes }) {
  const { origin, host, pathname } = new URL(url);
  const row = element('tr');
  const address = element('td', '', origin === location.origin ? pathname : `${host}${pathname}`);
  address.title = url;
  const size = element('td', 'number', bytes ? (bytes < 1000 ? `${bytes} B` : format.bytes(bytes)) : '–');
  const time = new Date(at).toLocaleTimeString();
  row.append(address, size, element('td', 'number', time));
  return row;
}

/** @param {string[]} names */
function headOf(names) {
  const head = element('tr');
  for (const name of names) {
    const cell = element('th', '', name);
    cell.scope = 'col';
    head.append(cell);
  }
  return head;
}

/** Fills the section of the panel, and updates it while it is open. */
export function show() {
  const root = /** @type {HTMLDetailsElement} */ ($('requests'));
  if (root.querySelector('table')) return;
  const summary = element('p', 'request-summary');
  const table = element('table', 'parts');
  table.createTHead().append(headOf(['Address', 'Size', 'Time']));
  const body = table.createTBody();
  const place = element('div', 'table');
  place.tabIndex = 0;
  place.setAttribute('role', 'region');
  place.setAttribute('aria-label', 'Requests');
  place.append(table);
  const hint = 'As your browser recorded them. A reply makes no request: what you write stays on this device.';
  root.append(summary, place, element('p', 'hint', hint));
  let shown = '';
  const refresh = async () => {
    const requests = [...ofPage(), ...(await ofWorkers())]
      .filter(({ url }) => /^https?:/.test(url))
      .sort((a, b) => b.at - a.at);
    const others = requests.filter(({ url }) => new URL(url).origin !== location.origin);
    const state = requests.map(({ url, at }) => `${url} ${at}`).join('\n');
    if (state !== shown) {
      shown = state;
      summary.textContent = `${format.counted(requests.length, 'request')}: ${requests.length - others.length} to this site, ${others.length} to others.`;
      body.replaceChildren(...requests.slice(0, MAX_ROWS).map(rowOf));
    }
    if (root.open) setTimeout(refresh, REFRESH);
  };
  root.addEventListener('toggle', () => root.open && void refresh());
  void refresh();
}
