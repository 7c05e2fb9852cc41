"""Random Jinja programs in the manner of chat templates."""

import random

TEXTS = ["", "a", " b ", "A b\tC", "<|im_end|>", "ünïcödé ß", "日本", "x,y,,z", "line\nnext\n", "12", "-3.5", "  ", "{}", "%s",
         "it's", 'say "x"', "\u2028\x85q", "ǅ ŉ ﬁ", "\\n"]
NAMES = ["messages", "tools", "text", "words", "number", "real", "none_value", "flag", "nested", "missing", "x", "y", "m"]
FILTERS = [("upper", 0), ("lower", 0), ("trim", 0), ("capitalize", 0), ("title", 0), ("length", 0), ("list", 0), ("string", 0),
           ("tojson", 0), ("first", 0), ("last", 0), ("join", 1), ("default", 1), ("replace", 2), ("int", 0), ("float", 0),
           ("abs", 0), ("reverse", 0), ("sort", 0), ("unique", 0), ("sum", 0), ("min", 0), ("max", 0), ("items", 0),
           ("dictsort", 0), ("wordcount", 0), ("round", 0), ("batch", 1), ("slice", 1), ("indent", 0), ("count", 0), ("e", 0),
           ("safe", 0), ("select", 0), ("reject", 0), ("center", 1), ("truncate", 1), ("format", 1), ("d", 2), ("attr", 1),
           ("tojson(indent=2)", -1), ("map('upper')", -1), ("map('length')", -1), ("map(attribute='role')", -1),
           ("selectattr('role', 'equalto', 'user')", -1), ("rejectattr('role', 'in', ['user'])", -1), ("join(', ', 'role')", -1),
           ("sort(attribute='role')", -1), ("groupby('role')", -1), ("map('default', 'q')", -1), ("select('string')", -1),
           ("unique(attribute='role')", -1), ("dictsort(by='value')", -1), ("indent(2, true)", -1), ("trim('ab')", -1),
           ("sort(reverse=true)", -1), ("tojson(ensure_ascii=true)", -1), ("round(1)", -1), ("int(7)", -1),
           ("tojson(sort_keys=true, separators=(',', ':'))", -1), ("max(attribute='role')", -1)]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "boolean", "integer", "float",
         "true", "false", "odd", "even", "divisibleby 3", "eq 1", "in [1, 'a']", "sameas none", "lower", "upper", "callable",
         "equalto('a')", "ne none", "gt 0", "escaped"]
METHODS = ["strip()", "upper()", "lower()", "split()", "split(',')", "split(' ', 1)", "rsplit(',', 1)", "startswith('a')",
           "endswith('\\n')", "replace('a', 'b')", "find('b')", "count('a')", "title()", "capitalize()", "splitlines()",
           "join(words)", "lstrip()", "rstrip('\\n')", "items()", "keys()", "values()", "get('role')", "get('q', 1)", "isdigit()",
           "isalpha()", "partition(',')", "rpartition(' ')", "zfill(5)", "center(9, '*')", "ljust(7)", "rjust(7)", "islower()",
           "isupper()", "isspace()", "isalnum()", "swapcase()", "casefold()", "removeprefix('a')", "removesuffix('e')",
           "index('a')", "rfind('a')", "format(1, text)", "append(1)", "pop()", "copy()", "isnumeric()", "isascii()",
           "find('', 2)", "find('a', -2)", "count('')", "replace('', '-')", "rsplit()", "rsplit(none, 1)", "split(none, 1)"]
ATTRIBUTES = ["role", "content", "items", "name", "0", "tool_calls", "type", "a"]
LOOPS = ["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth",
         "cycle('a', 'b')", "changed(x)"]


class Programs:
    """One random program after another; the same seed gives the same."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def text_literal(self):
        text = self.draw.choice(TEXTS)
        quote = self.draw.choice("'\"")
        body = text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n").replace("\t", "\\t")
        return quote + body + quote

    def number(self):
        return self.draw.choice(["0", "1", "2", "3", "-1", "7", "10", "0.5", "2.0", "1e3", "1_000", "-2.5", "100"])

    def expression(self, depth=0):
        draw = self.draw
        if depth > 3:
            return draw.choice([self.text_literal(), self.number(), draw.choice(NAMES), "true", "none"])
        one = lambda: self.expression(depth + 1)
        kind = draw.randrange(22)
        if kind < 4: return draw.choice(NAMES)
        if kind < 6: return self.text_literal()
        if kind == 6: return self.number()
        if kind == 7: return draw.choice(["true", "false", "none", "True", "None"])
        if kind == 8: return f"{one()}.{draw.choice(ATTRIBUTES)}"
        if kind == 9: return f"{draw.choice(NAMES)}[{draw.choice([one(), '0', '-1', repr(draw.choice(ATTRIBUTES))])}]"
        if kind == 10:
            bounds = [draw.choice(["", "0", "1", "-1", "2", "-2", "5"]) for _ in range(3)]
            return f"{draw.choice(NAMES)}[{':'.join(bounds[:2])}{draw.choice(['', ':' + draw.choice(['', '2', '-1', '1'])])}]"
        if kind in (11, 12):
            name, n = draw.choice(FILTERS)
            arguments = "" if n <= 0 else "(" + ", ".join(one() for _ in range(n)) + ")"
            return f"({one() if draw.random() < 0.6 else draw.choice(NAMES)}|{name}{arguments})"
        if kind == 13: return f"({one()} is {draw.choice(['', 'not '])}{draw.choice(TESTS)})"
        if kind == 14: return f"({one()}).{draw.choice(METHODS)}" if draw.random() < 0.5 else f"text.{draw.choice(METHODS)}"
        if kind == 15: return f"({one()} {draw.choice(['+', '-', '*', '/', '//', '%', '**', '~', '+', '~'])} {one()})"
        if kind == 16: return f"({one()} {draw.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {one()})"
        if kind == 17: return f"({one()} {draw.choice(['and', 'or'])} {one()})"
        if kind == 18: return f"({one()} if {one()}{draw.choice([' else ' + one(), ''])})"
        if kind == 19: return "[" + ", ".join(one() for _ in range(draw.randrange(4))) + "]"
        if kind == 20: return "{" + ", ".join(f"{self.text_literal()}: {one()}" for _ in range(draw.randrange(3))) + "}"
        return draw.choice([f"(not {one()})", f"-{one()}", f"({one()}, {one()})", f"(range({self.number()})|list)", f"dict(a={one()})",
                            f"{one()} ~ {one()} ~ {one()}", f"{self.text_literal()} % {one()}", f"f({one()})",
                            f"ns.{draw.choice('ab')}", f"loop.{draw.choice(LOOPS)}", f"g({one()}, b={one()})"])

    def sign(self):
        return self.draw.choice(["", "", "-", "+"])

    def data(self):
        return self.draw.choice(["a", " ", "\n", "\n  ", "  \n\n", "\t", "<|x|>", "}", "é ", "{", "\r\n", "# ", "\u3000\n"])

    def statement(self, depth):
        draw = self.draw
        body = lambda: self.body(depth + 1)
        begin, end = (lambda: "{%" + self.sign() + " "), (lambda: " " + self.sign() + "%}")
        tag = lambda text: begin() + text + end()
        kind = draw.randrange(14)
        if kind < 3:
            parts = [tag("if " + self.expression(1)), body()]
            if draw.random() < 0.3: parts += [tag("elif " + self.expression(1)), body()]
            if draw.random() < 0.5: parts += [tag("else"), body()]
            return "".join(parts) + tag("endif")
        if kind < 6:
            target = draw.choice(["m", "x", "m", "x, y", "(x, y)"])
            items = draw.choice(["messages", "words", "nested", self.expression(1), "nested.items()", "range(3)", "messages[::-1]"])
            condition = " if " + self.expression(2) if draw.random() < 0.2 else ""
            if "loop" in condition:  # which loop that means, Jinja leaves open
                condition = ""
            other = tag("else") + body() if draw.random() < 0.2 else ""
            return tag(f"for {target} in {items}{condition}") + body() + other + tag("endfor")
        if kind < 8: return tag(f"set {draw.choice('xy')} = {self.expression(1)}")
        if kind == 8: return tag(f"set {draw.choice('xy')}") + body() + tag("endset")
        if kind == 9: return tag(f"set ns.{draw.choice('ab')} = {self.expression(1)}")
        if kind == 10:
            return tag("macro f(p, q=" + self.expression(2) + ")") + body() + "{{ p }}{{ q }}" + tag("endmacro")
        if kind == 11: return tag(f"with x = {self.expression(2)}") + body() + tag("endwith")
        if kind == 12:
            return draw.choice([tag("filter " + draw.choice(["upper", "trim", "indent(2)", "replace('a', 'b')|lower"])) + body() +
                                tag("endfilter"), tag("call f(1)") + body() + tag("endcall"),
                                tag("generation") + body() + tag("endgeneration"), tag("raw") + "{{ x }}" + tag("endraw"),
                                "{#" + self.sign() + " why " + self.sign() + "#}"])
        return draw.choice([tag("break"), tag("continue")]) if depth > 0 else tag("set x = 1")

    def body(self, depth):
        parts = []
        for _ in range(self.draw.randrange(1, 4)):
            kind = self.draw.randrange(5)
            if kind < 2 or (kind == 4 and depth > 2):
                parts.append("{{" + self.draw.choice(["", "", "-"]) + " " + self.expression() + " " + self.draw.choice(["", "", "-"]) + "}}")
            elif kind == 2:
                parts.append(self.data())
            else:
                parts.append(self.statement(depth))
        return "".join(parts)

    def program(self):
        return "{% set ns = namespace(a=1, b='q') %}{% macro g(a, b=2) %}[{{ a }}|{{ b }}]{% endmacro %}" + self.body(0)


VARIABLES = {
    "messages": [{"role": "system", "content": "Sys é <b>"}, {"role": "user", "content": "  Hi there\n"},
                 {"role": "assistant", "content": "Yo, a", "tool_calls": [{"name": "f", "a": [1, 2.5, None, True]}]},
                 {"role": "user", "content": ""}],
    "tools": None, "text": "ab, Ünï\nx  a", "words": ["b", "A", "c", "b"], "number": 7, "real": 2.5, "none_value": None,
    "flag": True, "nested": {"b": {"role": "q"}, "a": [3, 1, 2]}, "bos_token": "<s>", "add_generation_prompt": True,
}
