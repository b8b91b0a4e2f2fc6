// Forwards the selected text to the panel, which has the engine: a service worker can neither start workers nor import on demand.
const { contextMenus, runtime, sidePanel, storage } = globalThis.chrome;

runtime.onInstalled.addListener(() => {
  contextMenus.create({ id: 'explain', title: 'Explain “%s”', contexts: ['selection'] });
  sidePanel.setPanelBehavior({ openPanelOnActionClick: true });
});

contextMenus.onClicked.addListener(({ selectionText }, tab) => {
  // Chrome allows open() only in the task of the click, so it is called before anything asynchronous.
  sidePanel.open({ windowId: tab.windowId });
  // The time makes the value differ from the previous one, so that the panel gets an event for the same text, too.
  storage.session.set({ request: { text: selectionText, time: Date.now() } });
});
