// Writes files in the format of torch.save, for tests: a zip archive with a pickle and an entry for each storage.

/** A little-endian number. @param {number} n @param {number} bytes */
function le(n, bytes) {
  const out = Buffer.alloc(bytes);
  out.writeUIntLE(n, 0, bytes);
  return out;
}

/**
 * A zip archive of uncompressed entries, without the data of the entries.
 * @param {[string, { length: number }][]} entries @returns {{ parts: [number, Buffer][], places: number[], length: number }}  `parts`: offsets
 *   and bytes of the archive's own structures; `places`: offset of the data of each entry; `length`: of the archive
 */
export function archiveLayout(entries) {
  /** @type {[number, Buffer][]} */
  const parts = [];
  /** @type {Buffer[]} */
  const directory = [];
  /** @type {number[]} */
  const places = [];
  let at = 0;
  for (const [name, data] of entries) {
    const sizes = Buffer.concat([le(0, 4), le(data.length, 4), le(data.length, 4), le(name.length, 2), le(0, 2)]);
    const head = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), Buffer.alloc(10), sizes, Buffer.from(name)]);
    directory.push(
      Buffer.concat([
        Buffer.from('PK\x01\x02', 'latin1'),
        le(0, 2),
        le(0, 2),
        le(0, 2),
        le(0, 2),
        le(0, 4),
        sizes,
        le(0, 2),
        le(0, 2),
        le(0, 2),
        le(0, 4),
        le(at, 4),
        Buffer.from(name),
      ]),
    );
    parts.push([at, head]);
    places.push((at += head.length));
    at += data.length;
  }
  const directoryBytes = Buffer.concat(directory);
  const end = Buffer.concat([
    Buffer.from('PK\x05\x06', 'latin1'),
    le(0, 4),
    le(entries.length, 2),
    le(entries.length, 2),
    le(directoryBytes.length, 4),
    le(at, 4),
    le(0, 2),
  ]);
  parts.push([at, Buffer.concat([directoryBytes, end])]);
  return { parts, places, length: at + directoryBytes.length + end.length };
}

/** A zip archive of uncompressed entries. @param {[string, Buffer][]} entries */
export function archive(entries) {
  const { parts, places, length } = archiveLayout(entries);
  const out = Buffer.alloc(length);
  for (const [at, part] of parts) part.copy(out, at);
  entries.forEach(([, data], i) => data.copy(out, places[i]));
  return out;
}

/** Pickle opcode of a string. @param {string} text */
const unicode = (text) => Buffer.concat([Buffer.from('X'), le(Buffer.byteLength(text), 4), Buffer.from(text)]);
/** Pickle opcode of an integer. @param {number} n */
const integer = (n) => Buffer.concat([Buffer.from('J'), le(n, 4)]);

/** The pickle of a state dict; the storage of tensor i has the key "i". @param {[string, { dims: number[], values: { length: number } }][]} tensors @param {string} [under]  key of an outer dict that contains the state dict @param {string} [storage]  class of the storages */
export function torchPickle(tensors, under = '', storage = 'FloatStorage') {
  const raw = (/** @type {string} */ text) => Buffer.from(text, 'latin1');
  const tuple = (/** @type {number[]} */ items) => Buffer.concat([raw('('), ...items.map(integer), raw('t')]);
  const pickle = [raw('\x80\x02'), ...(under ? [raw('}'), unicode(under)] : []), raw('ccollections\nOrderedDict\n)R(')];
  tensors.forEach(([name, { dims, values }], i) => {
    const strides = dims.map((_, d) => dims.slice(d + 1).reduce((a, b) => a * b, 1));
    pickle.push(
      unicode(name),
      raw('ctorch._utils\n_rebuild_tensor_v2\n(('),
      unicode('storage'),
      raw(`ctorch\n${storage}\n`),
      unicode(String(i)),
      unicode('cpu'),
      integer(values.length),
      raw('tQ'),
      integer(0),
      tuple(dims),
      tuple(strides),
      raw('\x89ccollections\nOrderedDict\n)RtR'),
    );
  });
  pickle.push(raw('u'), raw(under ? 's.' : '.'));
  return Buffer.concat(pickle);
}

/** A file with a state dict of f32 tensors. @param {[string, { dims: number[], values: Float32Array }][]} tensors @param {string} [under]  key of an outer dict that contains the state dict */
export function torchZip(tensors, under = '') {
  return archive([
    ['m/data.pkl', torchPickle(tensors, under)],
    ...tensors.map(
      ([, { values }], i) =>
        /** @type {[string, Buffer]} */ ([
          `m/data/${i}`,
          Buffer.from(values.buffer, values.byteOffset, values.byteLength),
        ]),
    ),
  ]);
}
