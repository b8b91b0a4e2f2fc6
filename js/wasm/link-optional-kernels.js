/**
 * The kernels of rare types, a module that has nothing but code (c/kernels/simd_tiles.h): it works over the memory, on the
 * stack and in the function table of the instance that it is added to.
 */

/** Places in the function table that it may take. */
const PLACES = 128;

/**
 * What it imports, and a place for `bq_rare_matmul`, which `bqw_add_kernels` wants. An instance gives every thread's the
 * same places.
 * @param {any} exports  of the instance @param {WebAssembly.Memory} memory
 */
export function roomForRare({ __indirect_function_table: table, __stack_pointer }, memory) {
  const base = table.grow(PLACES);
  const __table_base = new WebAssembly.Global({ value: 'i32' }, base);
  return {
    table,
    at: base + PLACES - 1,
    imports: { env: { memory, __indirect_function_table: table, __stack_pointer, __table_base } },
  };
}
