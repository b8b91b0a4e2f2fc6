/**
 * Sends requests to the API of Hugging Face. The page's content security policy only allows its own site; this worker
 * has another one.
 */
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
