/** Requests that the browser has recorded, in a page or a worker. */

/**
 * @typedef {{ url: string, at: number, bytes: number }} RecordedRequest  `at`: milliseconds since 1970; `bytes`: 0 if
 *   from a cache, or not reported for another site
 */

/** @param {PerformanceEntryList} entries  entries of type `navigation` or `resource` @returns {RecordedRequest[]} */
export const recordedRequests = (entries) =>
  /** @type {PerformanceResourceTiming[]} */ (entries).map(({ name, startTime, transferSize, encodedBodySize }) => ({
    url: name,
    at: performance.timeOrigin + startTime,
    bytes: transferSize || encodedBodySize,
  }));
