/* Texts to begin with, each with what to look for in it; and, where nobody can type, why. */

const EXAMPLES = { // the words for each: 'example NAME' and 'see NAME'
  name: 'The king Zilgan rode out. Then king Zil',
  list: 'one, two, three; one, two,',
  giver: 'When Mary and John went to the shop, John gave a book to',
  year: 'The reign lasted from the year 1820 to the year 18',
  bracket: 'The tower (built in 1889',
  capital: 'The capital of France is',
  senses: 'The doctor looked at the mole on his',
  nonsense: 'blick wug toma, blick wug toma, blick wug',
};
/* Some of them begin with a second text beside them: a word is another, and so is the answer. */
const CHANGED = {
  [EXAMPLES.name]: 'The king Zilban rode out. Then king Zil',
  [EXAMPLES.giver]: 'When Mary and John went to the shop, Mary gave a book to',
  [EXAMPLES.capital]: 'The capital of Italy is',
};
const FOREIGN = 0.3; // of the text's tokens being pieces of characters: the vocabulary does not know this script

(() => {
  const select = byId('example');
  const note = byId('example-note');

  /* Tokens that are no whole character spell what the model has hardly read. */
  function isForeign() {
    const pieces = run.tokens.filter(({ hex }, i) => hex && /^(?:[89a-f].)+$/i.test(hex) && run.texts[i] === '');
    return pieces.length > FOREIGN * run.n;
  }

  function drawExamples() {
    const isTyped = state.text !== null && isLive();
    const names = Object.keys(EXAMPLES);
    const chosen = names.find((name) => EXAMPLES[name] === state.text) ?? '';
    byId('example-label').hidden = !isTyped;
    if (select.options.length !== names.length + 1 || select.dataset.language !== state.language) {
      select.replaceChildren(make('option', { value: '', disabled: true }, say('an example')), ...names.map((name) => make('option', { value: name }, say(`example ${name}`))));
      select.dataset.language = state.language;
    }
    select.value = chosen;
    byId('editor').placeholder = say('type here');
    note.textContent = run && isForeign() ? say('foreign script') : isTyped ? (chosen ? say(`see ${chosen}`) : '') : run && source.kind === 'frozen' ? say('fixed text') : '';
  }

  select.addEventListener('change', () => exchange(EXAMPLES[select.value]));
  addPart(['text', 'source', 'run', 'language'], drawExamples, 'always');
})();
