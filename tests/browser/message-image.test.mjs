// Tests of the picture of a question and its answer: its content, line breaks in all kinds of scripts, and how it is shared.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chromiumFirst, oneSite } from './every.mjs';
import { press, ready, say, waitUntilVisible } from './person.mjs';

/** @typedef {import('./browsers.mjs').Page} Page */

/** The picture of an answer: its size, the colour of its corner, and where ink is beneath the question. @param {Page} page @param {string} answer */
const drawn = (page, answer) =>
  page.evaluate(async (answer) => {
    const { drawMessages } = await import(String(new URL('chat/message-image.js', location.href)));
    const blob = await drawMessages('Why?', answer);
    const image = await createImageBitmap(blob);
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext('2d'));
    context.drawImage(image, 0, 0);
    // Between the question and the line at the end.
    const [top, bottom] = [2 * 116, image.height - 2 * 36];
    const { data } = context.getImageData(0, top, image.width, bottom - top);
    let [left, right, lines, wasInk] = [Infinity, -1, 0, false];
    for (let y = 0; y < bottom - top; y++) {
      let isInk = false;
      for (let x = 0; x < image.width; x++) {
        const at = 4 * (y * image.width + x);
        if (Math.abs(data[at] - data[0]) < 60) continue;
        [left, right, isInk] = [Math.min(left, x), Math.max(right, x), true];
      }
      if (isInk && !wasInk) lines++;
      wasInk = isInk;
    }
    return { type: blob.type, width: image.width, height: image.height, paper: data[0], left, right, lines };
  }, answer);

const TEXTS = {
  English: 'It is a state-of-the-art example (with brackets), and 3.14 stays whole. ',
  Arabic: 'هذا نص عربي طويل يجب أن يلتف عند حافة الصورة، مع كلمة English في الوسط. ',
  Chinese: '人工智能可以在浏览器中运行，不需要服务器。所有“文字”都留在你的设备上！',
  Japanese: 'データは端末の中に残ります。「サーバー」は要りません。',
  Hindi: 'कृत्रिम बुद्धिमत्ता ब्राउज़र में चलती है और क्षत्रिय ज्ञान यहीं रहता है। ',
  Thai: 'ปัญญาประดิษฐ์ทำงานในเบราว์เซอร์โดยไม่ต้องใช้เซิร์ฟเวอร์ ',
  Emoji: '👩‍👩‍👧‍👦🇩🇪👋🏽',
};

await chromiumFirst((name) => {
  const here = oneSite(name);

  test('lines of any script fit the width, break where the script allows it, and lose nothing', async () => {
    const page = await here.open('demo/');
    await ready(page); // it may have loaded itself again, to share memory
    const laid = await page.evaluate(async (texts) => {
      const { directionOf, linesOf } = await import(String(new URL('chat/text-layout.js', location.href)));
      const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
      const measure = (/** @type {string} */ text) => [...graphemes.segment(text)].length;
      return Object.fromEntries(
        Object.entries(texts).map(([script, text]) => {
          const whole = text.repeat(12);
          const starts = new Set([...graphemes.segment(whole)].map(({ index }) => index));
          const lines = /** @type {string[]} */ (linesOf(whole, 23, measure));
          let [from, isWhole] = [0, true];
          for (const line of lines) {
            const at = whole.indexOf(line, from);
            isWhole &&= at >= 0 && starts.has(at) && !whole.slice(from, at).trim();
            from = at + line.length;
          }
          const widest = Math.max(...lines.map(measure));
          return [script, { lines, isWhole, widest, rest: whole.slice(from).trim(), direction: directionOf(text) }];
        }),
      );
    }, TEXTS);
    for (const [script, { lines, isWhole, widest, rest, direction }] of Object.entries(laid)) {
      assert.ok(isWhole && widest <= 23 && rest === '' && lines.length > 1, `${script}: ${JSON.stringify(lines)}`);
      assert.equal(direction, script === 'Arabic' ? 'rtl' : 'ltr', script);
      const wrong = lines.filter((line) => /^[，。！、”」)ー]|[“「(]$/.test(line));
      assert.deepEqual(wrong, [], script);
    }
    const words = new Set(TEXTS.English.trim().split(/(?<=\p{L}-)|\s/u));
    for (const line of laid.English.lines)
      for (const word of line.split(/(?<=\p{L}-)|\s/u)) assert.ok(words.has(word), `${word} in ${line}`);
    // Where lines of Han or kana end isn't where the sentences do.
    assert.ok(laid.Chinese.lines.slice(0, -1).every((line) => line.length > 15));
    await page.close();
  });

  test('the picture has the colors of the page; texts start at the side of their direction; marks of Markdown are omitted', async () => {
    const page = await here.open('demo/');
    await ready(page);
    await page.evaluate(() => void (document.documentElement.dataset.theme = 'light'));
    const latin = await drawn(page, 'Because.');
    assert.deepEqual([latin.type, latin.width, latin.lines], ['image/png', 1440, 1]);
    assert.ok(latin.paper > 230 && Math.abs(latin.left - 72) < 8 && latin.right < 400, JSON.stringify(latin));
    const arabic = await drawn(page, 'لأن');
    assert.ok(Math.abs(arabic.right - (1440 - 72)) < 8 && arabic.left > 1000, JSON.stringify(arabic));
    const { left, right } = await drawn(page, '**Because.**');
    assert.deepEqual([left, right], [latin.left, latin.right]);
    const list = await drawn(page, '1. One\n2. Two\n\n```js\nconst three = 3;\n```');
    assert.equal(list.lines, 3, JSON.stringify(list));
    const code = await drawn(page, '```\n____\nx\n```');
    assert.equal(code.lines, 2, 'underscores, at the bottom of their line');
    await page.evaluate(() => void (document.documentElement.dataset.theme = 'dark'));
    const dark = await drawn(page, 'Because.');
    assert.ok(dark.paper < 40 && dark.lines === 1 && Math.abs(dark.left - 72) < 8, JSON.stringify(dark));
    const long = await drawn(page, 'One more paragraph of many.\n\n'.repeat(1000));
    assert.deepEqual([long.width, long.height <= 16_000], [720, true]);
    await page.close();
  });

  test('the picture is shared with apps if the device supports it, otherwise downloaded', async () => {
    const page = await here.open('demo/');
    await ready(page);
    await say(page, 'Hello');
    // What no browser of this kind has without a desktop: the place where apps take what is shared.
    await page.evaluate(() => {
      const canShare = () => true;
      const share = async (/** @type {{ files: File[] }} */ { files: [file] }) =>
        void (document.body.dataset.shared = `${file.name} ${file.type} ${file.size > 2000}`);
      for (const [name, value] of Object.entries({ canShare, share }))
        Object.defineProperty(navigator, name, { value, configurable: true });
    });
    const open = () =>
      page.evaluate(() => {
        const menu = [...document.querySelectorAll('.message-menu')].at(-1);
        menu?.querySelector('summary')?.click();
      });
    await open();
    await press(page, 'Share the question and this reply as a picture', '[role=log]');
    await page.until(() => document.body.dataset.shared === 'bq4-reply.png image/png true');

    await page.evaluate(() => {
      Object.defineProperty(navigator, 'canShare', { value: () => false, configurable: true });
      // A download ends outside the page: what is asked for is seen at the link.
      addEventListener(
        'click',
        (event) => {
          if (!(event.target instanceof HTMLAnchorElement)) return;
          event.preventDefault();
          document.body.dataset.saved = `${event.target.download} ${event.target.protocol}`;
        },
        true,
      );
      const click = HTMLAnchorElement.prototype.click;
      HTMLAnchorElement.prototype.click = function () {
        document.body.append(this);
        click.call(this);
        this.remove();
      };
    });
    await press(page, 'Share the question and this reply as a picture', '[role=log]');
    await page.until(() => document.body.dataset.saved === 'bq4-reply.png blob:');
    await waitUntilVisible(page, '#notices .notice');
    await page.close();
  });
});
