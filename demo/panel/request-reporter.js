/** In a worker: reports its requests to the page on demand (panel/requests.js). */
import { recordedRequests } from './recorded-requests.js';

performance.setResourceTimingBufferSize?.(5000); // default 250; more would not be recorded
try {
  const channel = new BroadcastChannel('bq4-requests');
  channel.addEventListener('message', ({ data }) => {
    if (data === 'list') channel.postMessage({ requests: recordedRequests(performance.getEntriesByType('resource')) });
  });
} catch {
  // A browser that blocks cookies may refuse the channel: the list lacks the worker's requests.
}
