/**
 * Returns the state of a file in Node, and a function that checks whether another program has written the file since
 * then. It compares the time of the last write.
 * @param {{ stat: () => Promise<{ mtimeMs: number, size: number, isDirectory: () => boolean }> }} file
 */
export async function versionOf(file) {
  const stat = await file.stat();
  return { stat, wasWritten: async () => (await file.stat()).mtimeMs !== stat.mtimeMs };
}
