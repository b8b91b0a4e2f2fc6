// A service worker can't start workers, nor import on demand: this one passes words on, the panel has the engine.
const { contextMenus, runtime, sidePanel, storage } = globalThis.chrome;

runtime.onInstalled.addListener(() => {
  contextMenus.create({ id: 'explain', title: 'Explain “%s”', contexts: ['selection'] });
  sidePanel.setPanelBehavior({ openPanelOnActionClick: true });
});

contextMenus.onClicked.addListener(({ selectionText }, tab) => {
  sidePanel.open({ windowId: tab.windowId }); // first: it needs the click
  storage.session.set({ asked: { words: selectionText, at: Date.now() } });
});
