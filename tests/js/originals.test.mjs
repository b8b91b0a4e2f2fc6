// See originals-suite.mjs; originals.long.mjs takes ten times as many strings.
import { originalsSuite } from './originals-suite.mjs';

originalsSuite(1000);
