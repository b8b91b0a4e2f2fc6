// See originals-suite.mjs.
import { originalsSuite } from './originals-suite.mjs';

originalsSuite(10_000, true);
