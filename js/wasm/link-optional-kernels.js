/**
 * Links the optional kernels (bq4-*-rare.wasm), which multiply weights of the types that few models have, to an instance of the
 * engine. Their module has code alone (c/kernels/simd_tiles.h): it uses the memory, the stack and the function table of the engine.
 */

/** Entries of the function table that the module may take. */
const TABLE_ENTRIES = 128;

/**
 * Imports for the module, and the table index for its `bq_rare_matmul`, which `bqw_add_kernels` takes. The indexes are the same in
 * each thread of an engine, since function pointers lie in the memory that the threads share.
 * @param {any} exports  of the engine's instance @param {WebAssembly.Memory} memory
 */
export function linkOptionalKernels({ __indirect_function_table: table, __stack_pointer }, memory) {
  const base = table.grow(TABLE_ENTRIES);
  const __table_base = new WebAssembly.Global({ value: 'i32' }, base);
  return {
    table,
    at: base + TABLE_ENTRIES - 1,
    imports: { env: { memory, __indirect_function_table: table, __stack_pointer, __table_base } },
  };
}
