/** In a worker: tells the page which requests it has made, when the page asks (panel/requests.js). */
const channel = new BroadcastChannel('bq4-requests');
performance.setResourceTimingBufferSize?.(5000); // 250 else; later ones would not be recorded
channel.addEventListener('message', ({ data }) => {
  if (data !== 'list') return;
  const entries = /** @type {PerformanceResourceTiming[]} */ (performance.getEntriesByType('resource'));
  channel.postMessage({
    requests: entries.map(({ name, startTime, transferSize, encodedBodySize }) => ({
      url: name,
      at: performance.timeOrigin + startTime,
      bytes: transferSize || encodedBodySize,
    })),
  });
});
