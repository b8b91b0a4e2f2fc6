/**
 * What a file in Node is now, and whether it was written since: by its time, which other programs change.
 * @param {{ stat: () => Promise<{ mtimeMs: number, size: number, isDirectory: () => boolean }> }} file
 */
export async function versionOf(file) {
  const stat = await file.stat();
  return { stat, wasWritten: async () => (await file.stat()).mtimeMs !== stat.mtimeMs };
}
