/** The list of what can be loaded, as the entries export it. */
import { onDemand } from './shared/errors.js';

/** What this version can load: architectures, chat formats, weight types, containers. NETWORK. @returns {Promise<import('./shared/types.js').Supported>} */
export const listSupported = async () => (await onDemand(import('./supported.js'))).supported();
