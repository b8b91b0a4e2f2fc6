/** What is told of a generation. */

/** All of it but how it was computed. @param {any} generation */
export async function told(generation) {
  const parts = [];
  for await (const part of generation) parts.push(part);
  const { timings, ...result } = await generation.result;
  return { said: { parts, result }, timings };
}
