#!/usr/bin/env node
/*
 * The pictures of a page of `study view` that the documents show: scripts/page_pictures.js ./study model.bin docs
 * writes page-text.png, page-heads.png, … there. Needs what tests/test_page.sh needs.
 */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { launch } = require('../tests/browser');

const [study, model, folder] = process.argv.slice(2);
const PROMPT = 'The red fox met the old bear. The red fox met';
const PICTURES = [['text', 'light', 560], ['heads', 'light', 900], ['heads', 'dark', 900], ['lens', 'light', 700], ['steps', 'light', 760]];

(async () => {
  const page = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'page-')), 'page.html');
  execFileSync(study, ['view', model, '-p', PROMPT, '-n', '6', '--ablate', 'L4H1', '-o', page]);
  const browser = await launch();
  for (const [section, colorScheme, height] of PICTURES) {
    const tab = await browser.newPage({ viewport: { width: 1180, height }, colorScheme, deviceScaleFactor: 1.25 });
    await tab.goto(`file://${page}`);
    await tab.evaluate(() => window.change({ heads: ['L4H1'] }));
    if (section === 'steps') await tab.check('input[name=step][value="4"]');
    await tab.evaluate((id) => document.getElementById(id).scrollIntoView(), section);
    await tab.waitForTimeout(1000); // the thumbnails come a few a frame
    await tab.screenshot({ path: path.join(folder, `page-${section}${colorScheme === 'dark' ? '-dark' : ''}.png`) });
    await tab.close();
  }
  await browser.close();
  fs.rmSync(path.dirname(page), { recursive: true });
})();
