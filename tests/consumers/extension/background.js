// An extension has one; it computes nothing: a service worker can't start workers, nor import on demand.
globalThis.chrome.runtime.onInstalled.addListener(() => {});
