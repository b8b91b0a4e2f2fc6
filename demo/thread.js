// A thread of the engine. It is in this folder because the folder's service worker serves only addresses below it.
import '../js/thread.js';
