/** In a worker: tells the page which requests it has made, when the page asks (panel/requests.js). */
import { recordedRequests } from './recorded-requests.js';

const channel = new BroadcastChannel('bq4-requests');
performance.setResourceTimingBufferSize?.(5000); // 250 else; later ones would not be recorded
channel.addEventListener('message', ({ data }) => {
  if (data === 'list') channel.postMessage({ requests: recordedRequests(performance.getEntriesByType('resource')) });
});
