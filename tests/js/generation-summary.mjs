// The parts and the result of a generation, for comparing generations that are computed in different ways.

/** Reads a generation. `output`: its parts and its result without `usage` and `timings`, which depend on the computation. @param {any} generation */
export async function readGeneration(generation) {
  const parts = [];
  for await (const part of generation) parts.push(part);
  const { timings, usage, ...result } = await generation.result;
  return { output: { parts, result }, usage, timings };
}
