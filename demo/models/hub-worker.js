/** Asks the hub's API. The page itself may connect to nothing but its own site: this worker may read from the hub. */
import '../panel/request-reporter.js';
import { HUB } from './catalogue.js';

addEventListener('message', async ({ data: path }) => {
  try {
    const response = await fetch(`${HUB}/api/${path}`, { credentials: 'omit', referrerPolicy: 'no-referrer' });
    postMessage({ status: response.status, value: response.ok ? await response.json() : null });
  } catch (error) {
    postMessage({ status: 0, value: String(error) });
  }
});
