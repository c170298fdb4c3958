#!/usr/bin/env node
/*
 * The pictures of the page that the documents show: scripts/checks/page_pictures.js ./study model.bin docs writes page.png,
 * page-dark.png, page-steps.png and page-off.png there. Needs what tests/test_page.sh needs.
 */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { launch } = require('../../tests/browser');

const [study, model, folder] = process.argv.slice(2);
const PROMPT = 'The king Zilgan rode out. Then king Zil';
const PICTURES = [ // file, what the address adds, height, the part at the top
  ['page.png', '', 860], ['page-dark.png', '&theme=dark', 860], ['page-steps.png', '&v=steps', 600, 'look'], ['page-off.png', '&off=L3H4%3D0%2CL4H0%3D0%2CL5H0%3D0', 760],
];

(async () => {
  const page = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'page-')), 'page.html');
  execFileSync(study, ['view', model, '-p', PROMPT, '--live', '-o', page], { stdio: 'ignore' });
  const browser = await launch();
  for (const [name, state, height, top] of PICTURES) {
    const tab = await browser.newPage({ viewport: { width: 1440, height }, reducedMotion: 'reduce' });
    await tab.goto(`file://${page}#t=${encodeURIComponent(PROMPT)}&h=L3H4${state}`);
    await tab.waitForFunction(() => source.ready && run.lens[run.n - 1]);
    await tab.waitForFunction(() => asking === null && wanted.size === 0 && (Object.keys(state.off).length === 0 || isChanged()));
    if (top) await tab.evaluate((id) => document.getElementById(id).scrollIntoView(), top);
    await tab.waitForTimeout(1000); // the thumbnails come a few a frame
    await tab.screenshot({ path: path.join(folder, name) });
    await tab.close();
  }
  await browser.close();
  fs.rmSync(path.dirname(page), { recursive: true });
})();
