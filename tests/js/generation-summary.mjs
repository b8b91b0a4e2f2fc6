/** The parts and the result of a generation, to compare generations that are computed in different ways. */

/** `said`: all but how it was computed; `usage` and `timings` beside it. @param {any} generation */
export async function report(generation) {
  const parts = [];
  for await (const part of generation) parts.push(part);
  const { timings, usage, ...result } = await generation.result;
  return { said: { parts, result }, usage, timings };
}
