/*
 * Who answers what the page asks: nobody beyond the numbers in the file (frozen), the engine in a worker, or the program
 * that serves the page. A question is a command of `study` without its model, the answer the JSON that it prints.
 */

const answerers = {
  /* The engine and, unless one is to be dropped here, the model lie in the page. */
  engine() {
    const waiting = new Map(); // id → {resolve, reject, progress}
    let last = 0;
    const policy = window.trustedTypes?.createPolicy('attn', { createScriptURL: (url) => url });
    const address = URL.createObjectURL(new Blob([byId('worker').textContent], { type: 'text/javascript' }));
    const worker = new Worker(policy ? policy.createScriptURL(address) : address);
    worker.addEventListener('message', ({ data: { id, text, error, share: done } }) => {
      const question = waiting.get(id);
      if (done !== undefined) {
        question.progress?.(done);
        return;
      }
      waiting.delete(id);
      if (error === undefined) question.resolve(text);
      else question.reject(new Error(error));
    });
    const send = (message, progress) => new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject, progress });
      worker.postMessage({ id: last, ...message });
    });
    const compiled = send({ code: byId('engine').textContent });
    return {
      /* Opens the page's own model, or a file. */
      open: async (file, progress) => {
        await compiled;
        await send(file ? { model: file, name: file.name } : { model: byId('weights').textContent, name: byId('weights').dataset.name }, progress);
      },
      ask: async (argv) => JSON.parse(await send({ argv })),
    };
  },

  server() {
    return {
      open: async () => {},
      ask: async (argv, signal) => {
        let answer = null;
        let text = '';
        try {
          answer = await fetch('ask', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ argv }), signal });
          text = await answer.text();
        } catch (error) {
          if (error.name === 'AbortError') throw error;
          answer = null;
        }
        setGone(!answer || [404, 503].includes(answer.status)); // 404: one that was started anew; 503: it ends
        if (source.gone) throw new Error(say('server gone'));
        const json = /json/.test(answer.headers.get('Content-Type')) ? JSON.parse(text) : { error: text };
        if (!answer.ok) throw new Error(json.error);
        return json;
      },
    };
  },
};

const source = {
  kind: document.documentElement.dataset.source, // "frozen", "engine" or "server"
  file: null, // whose model answers, in place of the page's own
  answerer: null,
  ready: false, // someone answers
  problem: null, // why nobody does
  gone: false, // the server has ended
};

/* One that answers again is asked for what it has not answered. */
function setGone(gone) {
  if (source.gone === gone) return;
  source.gone = gone;
  touch('unanswered', ...(gone ? [] : ['source']));
}

/* Questions that wait, the most urgent kind first; of each kind only the newest. One is under way at a time. */
const URGENCY = ['tokens', 'text', 'without', 'drawn', 'save', 'explain', 'why', 'attributed', 'lens', 'tour', 'clean', 'corrupted', 'patched', 'heads', 'rest'];
const wanted = new Map(); // kind → {argv, take, fail}
let asking = null; // the question under way
const refusals = new Map(); // kind → why the newest question of it has no answer

/* Why there will be no answer to a kind of question; null where it may be on its way. */
const unanswered = (kind) => (source.gone ? say('server gone') : refusals.get(kind) ?? null);

/*
 * Asks; `take` gets the answer, unless the same kind was asked for again in between, or dropped. A server gives up what it
 * is at for something as urgent; the engine, which cannot be stopped, is asked in small pieces.
 */
function want(kind, argv, take, fail = () => {}) {
  wanted.set(kind, { kind, argv, take, fail });
  refusals.delete(kind);
  if (asking && URGENCY.indexOf(kind) <= URGENCY.indexOf(asking.kind)) asking.controller.abort();
  askNext();
}

function drop(...kinds) {
  for (const kind of kinds) {
    wanted.delete(kind);
    if (asking?.kind !== kind) continue;
    asking.dropped = true;
    asking.controller.abort();
  }
}

async function askNext() {
  if (asking || !source.ready) return;
  const kind = URGENCY.find((one) => wanted.has(one));
  if (!kind) return;
  const question = wanted.get(kind);
  wanted.delete(kind);
  asking = question;
  question.controller = new AbortController();
  const isNewest = () => !question.dropped && !wanted.has(kind);
  try {
    const answer = await source.answerer.ask([...question.argv, '--json'], question.controller.signal);
    if (isNewest()) question.take(answer);
  } catch (error) {
    if (isNewest() && error.name === 'AbortError') wanted.set(kind, question); // it waits for what is more urgent
    else if (isNewest()) {
      const message = error.message.replace(/^study: /, '');
      refusals.set(kind, message);
      touch('unanswered');
      question.fail(message);
    }
  } finally {
    asking = null;
    askNext();
  }
}

/* Starts whoever answers. Its first answers come when the model is open. */
async function openSource(file = null, progress = () => {}) {
  source.ready = false;
  source.problem = null;
  wanted.clear();
  refusals.clear();
  touch('source');
  try {
    source.answerer ??= answerers[source.kind]();
    await source.answerer.open(file, progress);
    source.file = file;
    source.ready = true;
  } catch (error) {
    source.problem = error.message;
  }
  touch('source');
  askNext();
}
