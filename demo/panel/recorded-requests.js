/** Requests as the browser recorded them, in a page or a worker. */

/** @typedef {{ url: string, at: number, bytes: number }} RecordedRequest  `at`: milliseconds since 1970; `bytes` 0: from a cache, or not told by another site */

/** @param {PerformanceEntryList} entries  of the types `navigation` and `resource` @returns {RecordedRequest[]} */
export const recordedRequests = (entries) =>
  /** @type {PerformanceResourceTiming[]} */ (entries).map(({ name, startTime, transferSize, encodedBodySize }) => ({
    url: name,
    at: performance.timeOrigin + startTime,
    bytes: transferSize || encodedBodySize,
  }));
