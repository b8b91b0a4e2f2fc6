/**
 * Links the optional kernels (bq4-*-rare.wasm) to an instance of the engine. They multiply weights of uncommon types.
 * Their module contains only code (c/kernels/simd_tiles.h): it uses the memory, the stack and the function table of the
 * engine.
 */

/** Number of entries of the function table that are reserved for the module. */
const TABLE_ENTRIES = 128;

/**
 * Returns the imports of the module, and the table index for its function `bq_rare_matmul`, which `bqw_add_kernels`
 * requires. The indices are the same in each thread of an engine, since function pointers are stored in the shared
 * memory.
 * @param {any} exports  exports of the engine's instance @param {WebAssembly.Memory} memory
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
