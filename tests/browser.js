/* How the tests, bench and pictures of the page start a browser: headless, and without a word to any network. */
'use strict';
const { chromium } = require('playwright-core');

const ARGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

exports.launch = (options = {}) => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGS, ...options });
