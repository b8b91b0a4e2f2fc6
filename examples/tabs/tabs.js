// In your own page: import { createSharedEngine } from 'bq4/shared';
import { createSharedEngine } from '../../js/remote/tabs/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';

try {
  const engine = await createSharedEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  const chat = await model.createChat();
  const showLeader = () =>
    ($('status').textContent = engine.info.leads ? 'This tab computes.' : 'Another tab computes.');
  showLeader();
  engine.events.addEventListener('restarted', showLeader);
  let prompt = 'Tell me a story.';
  $('tell').disabled = false;
  $('tell').onclick = async () => {
    $('tell').disabled = true;
    $('story').textContent += '\n';
    try {
      for await (const { text } of chat.send(prompt, { maxTokens: 60, temperature: 0.7 }))
        $('story').textContent += text;
    } catch (error) {
      showError(error);
    }
    showLeader();
    prompt = $('tell').textContent = 'Tell me more.';
    $('tell').disabled = false;
  };
} catch (error) {
  showError(error);
}
