/*
 * The meaning of each technical word, in one sentence. Wherever one stands in a text of the page, the first time in each
 * section, it carries its meaning: by hover, by focus, by tap.
 */

/* A word as English and Chinese texts have it, and its meaning in both. */
const GLOSSARY = {
  token: [/\btokens?\b/i, /词元/, 'A word or a piece of one: what the model reads and writes, one at a time.', '词或词的碎片：模型逐个读写的单位。'],
  logit: [/\blogits?\b(?! lens)/i, /logits?(?! 透镜)/, 'The score that a token gets before the softmax makes probabilities of all scores.', 'softmax 把分数变成概率之前，一个词元得到的分数。'],
  surprisal: [/\bsurprisal\b/i, /意外度/, 'How unexpected a token was: −log₂ of its probability, in bits. 0 is certain, and each bit more halves the probability.', '一个词元有多出乎意料：概率的 −log₂，单位比特。0 表示必然，每多一比特概率减半。'],
  entropy: [/\bentropy\b/i, /熵/, 'How open the choice of the next token is: the surprisal to be expected, in bits.', '下一个词元的选择有多开放：意外度的期望，单位比特。'],
  perplexity: [/\bperplexity\b/i, /困惑度/, 'The mean surprisal as a number of equally likely tokens: 2 to the power of the bits a token.', '把平均意外度换算成多少个同样可能的词元：2 的“每词元比特数”次方。'],
  probability: [/\bprobability\b/i, /概率/, 'The share of its bets that the model puts on a token; those of all tokens make 1.', '模型押在一个词元上的份额；所有词元合计为 1。'],
  rank: [/\brank\b/i, /排名/, 'The place of a token among all, the likeliest being 1.', '词元在全部词元中的名次，最可能的为 1。'],
  temperature: [/\btemperature\b/i, /温度/, 'Logits are divided by it before a token is drawn: below 1 likely tokens gain, above 1 unlikely ones do.', '抽样前 logit 除以它：小于 1 时可能的词元更占优，大于 1 时罕见的机会更大。'],
  'top-p': [/\btop-p\b/i, /top-p/i, 'Only the likeliest tokens that together hold this much probability may be drawn.', '只从最可能、合计概率达到此值的词元中抽取。'],
  seed: [/\bseed\b/i, /种子/, 'The number that chance starts from: the same seed draws the same tokens.', '随机数的起点：相同的种子抽出相同的词元。'],
  points: [/\bpercentage points\b|\bpp\b/, /百分点|\bpp\b/, 'Percentage points: the difference of two percentages. From 10 % to 15 % are 5 of them.', '百分点：两个百分数之差。从 10 % 到 15 % 是 5 个百分点。'],
  head: [/\bheads?\b/i, /(?<![开回])头(?!部)/, 'One of several attentions that work side by side in a layer; each looks for something else.', '一层中并行工作的若干注意力之一；各自寻找不同的东西。'],
  layer: [/\blayers?\b/i, /(?<!逐)层/, 'One round of attention and MLP; the vectors of all tokens pass one after another.', '一轮注意力加前馈网络；所有词元的向量逐层通过。'],
  pattern: [/\b(?:attention )?patterns?\b/i, /注意力图/, 'All weights of a head: a row for each query, a column for each key.', '一个头的全部权重：每行一个查询，每列一个键。'],
  weight: [/\b(?:attention )?weights?\b/i, /(?:注意力)?权重/, 'The share of its attention that a query gives to a key, between 0 and 1.', '查询分给一个键的注意力份额，在 0 与 1 之间。'],
  query: [/\bquer(?:y|ies)\b/i, /查询/, 'The vector in which a token says what it looks for; also the token that asks.', '词元说明自己在找什么的向量；也指发问的词元。'],
  key: [/(?<!arrow )\bkeys?\b/i, /(?<![按向])键/, 'The vector in which a token says what it offers; also the token that is looked at.', '词元说明自己能提供什么的向量；也指被看的词元。'],
  value: [/\bvalues\b|‖v‖/, /(?<![数分显])值/, 'The vector that a token hands over to whoever looks at it.', '词元交给看向它者的向量。'],
  'dot product': [/\bdot products?\b/i, /点积/, 'Two vectors multiplied number by number, and summed: large where they point the same way.', '两个向量逐个相乘再求和：方向一致时就大。'],
  mask: [/\bmask(?:ed)?\b/i, /掩码/, 'It hides what comes later, so that no token sees its own future.', '遮住后面的内容，使词元看不到自己的未来。'],
  softmax: [/\bsoftmax\b/i, /softmax/i, 'It makes shares that add up to 1 of any scores: exp of each over the sum of all.', '把任意分数变成总和为 1 的份额：各自的 exp 除以总和。'],
  RoPE: [/\bRoPE\b/, /RoPE/, 'Rotary position embedding: q and k are turned by an angle that grows with the position.', '旋转位置编码：q 与 k 按随位置增大的角度旋转。'],
  sink: [/\bsinks?\b/i, /汇点/, 'A key that takes weight and adds nothing: where a head rests.', '只收权重而不带来内容的键：头停歇之处。'],
  residual: [/\bresidual stream\b/i, /残差流/, 'The vector of a token on its way through the layers; every head and MLP adds to it.', '词元在各层间传递的向量；每个头和前馈网络都向它相加。'],
  embedding: [/\bembedding\b/i, /(?<!反)嵌入/, 'The vector that a token begins with: a row of a learned table.', '词元起始的向量：所学表格中的一行。'],
  unembedding: [/\bunembed(?:ding|ded)\b/i, /反嵌入/, 'The last step: a vector is compared with that of every token, which gives the logits.', '最后一步：把向量与每个词元的向量比较，得到 logit。'],
  MLP: [/\bMLPs?\b/, /前馈网络|MLP/, 'Two matrices with a bend between them: it works on each token alone.', '两个矩阵，中间一道弯折：对每个词元单独起作用。'],
  lens: [/\blogit lens\b/i, /logit 透镜/, 'It asks a vector in the middle of the model what the answer would be if it were the last.', '问模型中途的向量：如果到此为止，答案是什么。'],
  induction: [/\binduction\b/i, /归纳/, 'Continuing a pattern: looking for the same token before, and at what came after it.', '延续模式：寻找之前的同一词元，看它后面是什么。'],
  previous: [/\bprevious(?:-token)?(?= head|\b(?! position| token))/i, /前一词元/, 'Looking at the token just before.', '看向紧邻的前一个词元。'],
  duplicate: [/\bduplicate(?:-token)?\b/i, /重复词元/, 'Looking at an earlier copy of the same token.', '看向同一词元更早的一次出现。'],
  context: [/\bcontext\b/i, /上下文/, 'The tokens that the model can see at once; there is a most.', '模型一次能看到的词元；有上限。'],
  patching: [/\bactivation patching\b/i, /激活修补/, 'Putting a number of one run into another, to see whether the answer comes along.', '把一次运行中的数值放进另一次运行，看答案是否跟着过来。'],
  type: [/\b(?:I?Q\d_\w+|M?XFP4|BF16|F16|F32)\b/, /\b(?:I?Q\d_\w+|M?XFP4|BF16|F16|F32)\b/, 'How each number of the weights is stored; the digits are bits for each.', '权重的每个数以何种形式存放；数字是每个数的比特。'],
};

(() => {
  const TEXTS = 'p, h2, h3, dt, th, summary, label, .legend, .note, .summary, .readout, .facts';
  const NOT = 'bdi, code, math, svg, button, select, option, output, textarea, canvas, dfn, .bars, .numbers, .meanings, .chip, .unseen, .tip, [aria-hidden=true]';
  const WAIT_MS = 80; // after the last change of the page

  const wordOf = (name) => GLOSSARY[name][LANGUAGES[state.language]];
  const meaningOf = (name) => GLOSSARY[name][2 + LANGUAGES[state.language]];

  /* The first word of the text that has a meaning and is not known in its section. */
  function firstIn(text, known) {
    let first = null;
    for (const name of Object.keys(GLOSSARY)) {
      const found = known.has(name) ? null : wordOf(name).exec(text);
      if (found && (!first || found.index < first.index)) first = { name, index: found.index, length: found[0].length };
    }
    return first;
  }

  /* A label that chooses when it is clicked has a control of its own: the word in it takes no focus. */
  const isChoice = (node) => node.closest('label')?.querySelector('[type=radio], [type=checkbox]');

  function markText(node, known) {
    for (let rest = node, first; (first = firstIn(rest.data, known)); ) {
      const word = rest.splitText(first.index);
      rest = word.splitText(first.length);
      const term = make('dfn', { class: 'term', 'data-term': first.name, tabindex: isChoice(word.parentElement) ? null : 0 });
      word.replaceWith(term);
      term.append(word);
      known.add(first.name);
    }
  }

  function markAll() {
    for (const section of document.querySelectorAll('main section, .guide, .top')) {
      if (!section.checkVisibility()) continue;
      const known = new Set([...section.querySelectorAll('dfn')].map((term) => term.dataset.term));
      const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
      const texts = [];
      while (walker.nextNode()) {
        const { parentElement: parent } = walker.currentNode;
        if (parent.closest(TEXTS) && !parent.closest(NOT) && parent.checkVisibility()) texts.push(walker.currentNode);
      }
      for (const node of texts) markText(node, known);
    }
  }

  let waiting = null;
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(markAll, WAIT_MS);
  };
  const watch = new MutationObserver(later);
  for (const root of [document.querySelector('.top'), byId('main'), byId('guide')]) watch.observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ['hidden', 'open'] });
  addPart(['language'], later, 'always');

  const termAt = (element) => element.closest?.('dfn.term') ?? (element.matches?.('[type=radio], [type=checkbox]') ? element.closest('label')?.querySelector('dfn.term') : null);
  const tell = (term) => term && tip.over(term, make('p', {}, meaningOf(term.dataset.term)));
  document.addEventListener('pointerover', (event) => event.pointerType === 'mouse' && tell(event.target.closest?.('dfn.term')));
  document.addEventListener('pointerout', (event) => event.pointerType === 'mouse' && event.target.closest?.('dfn.term') && tip.hide());
  document.addEventListener('click', (event) => tell(event.target.closest?.('dfn.term')));
  document.addEventListener('focusin', (event) => tell(termAt(event.target)));
  document.addEventListener('focusout', (event) => termAt(event.target) && tip.hide());
})();
