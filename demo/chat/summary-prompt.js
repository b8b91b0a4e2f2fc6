/** The prompt format of summaries. */

/**
 * Puts a summary before the first message that the model still reads.
 * @param {string} summary
 * @param {string} content
 */
export const withSummary = (summary, content) => `[What was said before, in short: ${summary}]\n\n${content}`;
