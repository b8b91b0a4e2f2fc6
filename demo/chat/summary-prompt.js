/** How the demo's summary of older turns is put before the turns that stay. */

/** The first message of the user that stays, with the summary before it. @param {string} summary @param {string} content */
export const withSummary = (summary, content) => `[What was said before, in short: ${summary}]\n\n${content}`;
