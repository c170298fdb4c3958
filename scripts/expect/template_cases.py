#!/usr/bin/env python3
"""Makes tests/data/templates: what templates must give.

    conversations.json   contexts that chat templates are rendered with; made here
    cases.json           the lines of cases.txt as templates, each with its output, or null where it is an error
    oracle.json          for each chat template of ../shared/oracle, its SHA-256 and those of its outputs, a conversation
                         each (16 digits; null: an error)

    /usr/bin/python3 scripts/expect/template_cases.py FOLDER-WITH-NPM [TEMPLATE.jinja …]

The folder has node_modules with @huggingface/jinja (npm install @huggingface/jinja); Debian's python3-jinja2 is the other
opinion, set up as transformers does it. Where the two agree, all is clear, and where they do not, Python is right, because
models are trained with it: @huggingface/jinja prints lists, None and True as JSON, adds a string to a list, and lacks some
filters and methods. Two things are as npm has them: no text becomes HTML around one that is `safe`, and what map() gives
can be JSON. How many cases agree is printed.
"""
import datetime
import hashlib
import html
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

DATA = pathlib.Path(__file__).parent.parent.parent / "tests/data/templates"
NOW = 1721894400  # 25 July 2024, 8:00

NPM = """
import fs from "fs";
process.env.TZ = "UTC";
const Real = Date;
globalThis.Date = class extends Real { constructor(...a) { a.length ? super(...a) : super(%d000); } };
const { Template } = await import("@huggingface/jinja");
const { templates, contexts } = JSON.parse(fs.readFileSync(0, "utf8"));
const attempt = (f) => { try { return f(); } catch { return null; } };
console.log(JSON.stringify(templates.map((text) => {
  const template = attempt(() => new Template(text));
  return contexts.map((context) => template && attempt(() => template.render(structuredClone(context))));
})));
""" % NOW


class Generation(jinja2.ext.Extension):
    """transformers' tag around what the model has said."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_generation"), [], [], body).set_lineno(line)

    def _generation(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    if hasattr(x, "__next__"):
        x = list(x)
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def python(text, context):
    """The output by jinja2; None: an error."""
    # transformers' sandbox forbids to change lists, which Kimi's templates do.
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    now = datetime.datetime.utcfromtimestamp(NOW)
    environment.globals["strftime_now"] = now.strftime
    try:
        return environment.from_string(text).render(**json.loads(json.dumps(context)))
    except Exception:
        return None


def expected(templates, contexts, npm_folder):
    """[template][context] outputs, None for errors."""
    with tempfile.NamedTemporaryFile("w", suffix=".mjs", dir=npm_folder) as script:
        script.write(NPM)
        script.flush()
        given = json.dumps({"templates": templates, "contexts": contexts})
        npm = json.loads(subprocess.run(["node", script.name], input=given, text=True, check=True,
                                        stdout=subprocess.PIPE).stdout)
    result, agreed, total = [], 0, 0
    for text, by_npm in zip(templates, npm):
        row = []
        for context, other in zip(contexts, by_npm):
            output = python(text, context)
            agreed, total = agreed + (output == other), total + 1
            is_html = output and other and output != other and html.unescape(output) == other
            row.append(other if is_html else output)
        result.append(row)
    print(f"{agreed} of {total} outputs are the same by jinja2 and @huggingface/jinja")
    return result


def conversations():
    user = lambda text: {"role": "user", "content": text}
    assistant = lambda text, **more: {"role": "assistant", "content": text, **more}
    system = lambda text: {"role": "system", "content": text}
    tool = lambda name, text, to: {"role": "tool", "tool_call_id": to, "name": name, "content": text}
    call = lambda to, name, arguments: {"id": to, "type": "function",
                                        "function": {"name": name, "arguments": arguments}}
    part = lambda text: {"type": "text", "text": text}
    weather = {"type": "object", "required": ["location"], "properties": {
        "location": {"type": "string", "description": 'The city & state, e.g. "Zürich"'},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "opts": {"type": ["object", "null"], "required": ["deep"],
                 "properties": {"deep": {"type": "boolean"}, "x": {"type": "number"}}}}}
    function = lambda name, text, parameters: {
        "type": "function", "function": {"name": name, "description": text, "parameters": parameters}}
    tools = [function("get_weather", "Get the weather.\nReturns <text>.", weather),
             function("now", "The time", {"type": "object", "properties": {}})]
    turns = [user("Hello there"), assistant("Hi! How can I help?"), user("  What is 2+2?\n"), assistant("It's 4."),
             user("Thanks <b>&</b> 'bye' \"x\"")]

    def called(arguments, none):
        return [system("You are helpful."), user("Weather in Paris?"),
                assistant("", tool_calls=[call("abcdef123", "get_weather", arguments), call("abcdef456", "now", none)]),
                tool("get_weather", '{"temp": 21.5}', "abcdef123"), tool("now", "noon", "abcdef456"),
                assistant("21.5 degrees."), user("And Rome?")]

    said = []

    def add(messages, prompt=True, **more):
        said.append({"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
                     "unk_token": "<unk>", "add_generation_prompt": prompt, **more})

    add([user("Hello")])
    add([system("Be brief. Naïve 日本"), user("Hello")])
    add(turns)
    add([system("sys"), *turns, assistant("Bye \n")], False)
    add([system("sys"), *turns], tools=[])
    add([user("Weather?")], tools=tools)
    add(called({"location": "Paris", "days": 2, "unit": "celsius", "opts": {"deep": True, "x": 1.5, "n": None}}, {}),
        tools=tools)
    add(called('{"location": "Paris"}', "{}"), tools=tools)
    add([system("sys"), user("Think"), assistant("<think>\nhmm\n</think>\n\nanswer"), user("again")],
        enable_thinking=True, thinking=True)
    add([system("sys"), user("Think"), assistant("answer", reasoning_content="hmm hmm", thinking="hmm", reasoning="hm"),
         user("again")], enable_thinking=False, thinking=False, reasoning_effort="high")
    add([user([part("Part one"), part("two")]), assistant([part("ok")]), user([part("go")])])
    add([system("sys"), user("Weather?"),
         assistant("", tool_calls=[call("abcdef123", "get_weather", {"location": "Rome", "tags": ["a", "b"]})]),
         tool("get_weather", "rain", "abcdef123")], tools=tools, enable_thinking=True, date_string="1 Jan 2025",
        documents=[{"title": "t", "text": "x"}])
    add([system("/no_think sys"), user("x"), assistant("y", reasoning_content="r"), user("z"), assistant("w")], False,
        enable_thinking=True, xml_tools=tools)
    add([{"role": "developer", "content": "dev"}, user("x")])
    add([user("a"), assistant("<think>abc</think>def", tool_calls=[{"type": "function",
                                                                   "function": {"name": "now", "arguments": {}}}]),
         tool("now", [part("noon")], "1"), assistant("<|channel|>x"), user("b")], tools=tools,
        builtin_tools=["wolfram_alpha"], add_thoughts=True)
    return said


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(name, rows):
    """A list or dict, a row a line."""
    dump = lambda value: json.dumps(value, ensure_ascii=False)
    if isinstance(rows, dict):
        lines = [f"{dump(key)}: {dump(value)}" for key, value in rows.items()]
    else:
        lines = [dump(row) for row in rows]
    ends = "{}" if isinstance(rows, dict) else "[]"
    (DATA / name).write_text(ends[0] + "\n" + ",\n".join(lines) + "\n" + ends[1] + "\n")


def main():
    npm_folder, *paths = sys.argv[1:]
    text = (DATA / "cases.txt").read_text().split("\n", 2)[2]
    expressions, statements = (part.strip("\n") for part in text.split("%% statements"))
    expressions = expressions.replace("\\\n", "\0").split("\n")
    statements = statements.split("\n")
    templates = ["{{ " + line.replace("\0", "\\\n") + " }}" for line in expressions] + statements
    templates += ["\n".join(statements[i:i + 3]) + "\n" for i in range(0, len(statements), 3)]  # newlines between tags
    templates += ["a\r\nb\rc\n", "x\n\n", "x\r", ""]
    context = {"d": {"k": "v", "a": 1, "B": 2}, "l": [1, 2, 3], "s": "hello", "real": 2.0}
    rows = [[template, outputs[0]] for template, outputs in zip(templates, expected(templates, [context], npm_folder))]
    write("cases.json", [context] + rows)

    contexts = conversations()
    write("conversations.json", contexts)
    paths = sorted(map(pathlib.Path, paths))
    if paths:
        sources = [path.read_bytes().decode() for path in paths]
        outputs = expected(sources, contexts, npm_folder)
        write("oracle.json", {path.name: [digest(source), *(out if out is None else digest(out) for out in row)]
                              for path, source, row in zip(paths, sources, outputs)})


if __name__ == "__main__":
    main()
