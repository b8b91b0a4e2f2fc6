/** `listSupported`, which the entries export. */
import { onDemand } from './shared/errors.js';

/**
 * Lists the architectures, chat formats, weight types and containers that this version can load. Throws NETWORK.
 * @returns {Promise<import('./shared/types.js').Supported>}
 */
export const listSupported = async () => (await onDemand(import('./supported.js'))).supported();
