// Random sequences of public calls, a few on each kind of engine; many more: model-based.long.mjs. BQ4_SEED=n runs one of them.
import { after, test } from 'node:test';
import { CONFIGS, ENGINES, Oracle, runSequences } from './model-based.mjs';

const oracle = new Oracle();
after(() => oracle.close());
const seeds = process.env.BQ4_SEED ? [Number(process.env.BQ4_SEED)] : [1, 2, 3, 4];

for (const name of Object.keys(ENGINES))
  test(`sessions match their model: ${name}`, () => runSequences(name, seeds, 40, oracle));

for (const [family, config] of Object.entries(CONFIGS).slice(1))
  test(`so they are with the layers of ${family}`, async () => {
    const familyOracle = new Oracle(config);
    try {
      await runSequences('thread', seeds, 40, familyOracle);
    } finally {
      await familyOracle.close();
    }
  });
