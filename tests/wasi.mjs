// Runs a program under node's WASI, which may read and write where we are, in ../shared and in /tmp: node tests/wasi.mjs PROGRAM [ARGUMENT]…
import { existsSync, readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const folders = ['.', '../shared', '/tmp'].filter(existsSync);
const preopens = Object.fromEntries(folders.map((folder) => [folder, folder]));
const wasi = new WASI({ version: 'preview1', args, preopens, returnOnExit: true });
const module = await WebAssembly.compile(readFileSync(args[0]));
process.exit(wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject())));
