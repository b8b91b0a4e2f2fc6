// A thread of the engine. The file is in this folder so that the folder's service worker can store it. With the package: import 'bq4/files/thread.js';
import '../../js/thread.js';
