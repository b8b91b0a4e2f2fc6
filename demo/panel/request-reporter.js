/** In a worker: reports its requests to the page on demand (panel/requests.js). */
import { recordedRequests } from './recorded-requests.js';

const channel = new BroadcastChannel('bq4-requests');
performance.setResourceTimingBufferSize?.(5000); // default 250; more would not be recorded
channel.addEventListener('message', ({ data }) => {
  if (data === 'list') channel.postMessage({ requests: recordedRequests(performance.getEntriesByType('resource')) });
});
