// See minilm-suite.mjs.
import { cosinesSuite } from './minilm-suite.mjs';

cosinesSuite(1);
