"""Grammars that bundles ship, in Lark's notation and in llama.cpp's GBNF, and such as are refused."""

from __future__ import annotations

from typing import Final

LARK: Final = {
    "arithmetic": r"""
        start: sum
        sum: product (("+" | "-") product)*
        product: atom (("*" | "/") atom)*
        atom: NUMBER | "-" atom | "(" sum ")"
        NUMBER: /[0-9]+/
        %ignore /[ \t]+/
    """,
    "left recursion": r"""
        start: sum
        sum: sum "+" term | term
        term: term "*" factor | factor
        factor: "(" sum ")" | NUMBER
        NUMBER: /[0-9]+(\.[0-9]+)?/
    """,
    "left recursion by way of others": 'start: e\ne: sum | more | N\nsum: e "+" e\nmore: e "*" e\nN: /[0-9]+/',
    "left recursion behind what may lack": 'start: a\na: n a "x" | "1"\nn: "y"?',
    "json": r"""
        ?start: value
        ?value: object | array | ESCAPED_STRING | SIGNED_NUMBER -> number | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: ESCAPED_STRING ":" value
        %import common.ESCAPED_STRING
        %import common (SIGNED_NUMBER, WS)
        %ignore WS
    """,
    "line of CSV": r"""
        start: cell ("," cell)* "\n"
        cell: /[^,"\n]+/ | QUOTED |
        QUOTED: "\"" (/[^"]/ | "\"\"")* "\""   # a quote is written twice
    """,
    "date": r"""
        start: YEAR "-" MONTH "-" DAY ("T" HOUR ":" /[0-5][0-9]/)?
        YEAR: /[0-9]/{4}
        MONTH: "0" "1".."9" | "1" "0".."2"
        DAY: /0[1-9]|[12][0-9]|3[01]/ // 31 February as well
        HOUR: /[01][0-9]|2[0-3]/
    """,
    "program": r"""
        start: statement+
        statement: "let" NAME "=" e ";"
            | NAME "=" e ";"
            | "return" e ";"
            | "if" "(" e ")" block
        block: "{" statement* "}"
        e: e ("+" | "-" | "==" | "<=" | "<") e | NAME | INT | "(" e ")" | NAME "(" [e ("," e)*] ")"
        NAME: /[a-z_][a-z0-9_]*/
        %import common.INT -> INT
        %ignore /\s+/
    """,
    "all texts but one": 'start: A ";"?\nA: ~("a" | ~"b") | /[a-c]{2}/',
    "any bytes but a text": 'start: A\nA: ~"a"',
    "query": r"""
        start: select ";"
        select: "select"i cols "from"i NAME [where] ["order"i "by"i NAME ("asc"i|"desc"i)?] ["limit"i INT]
        cols: "*" | NAME ("," NAME)*
        where: "where"i cond
        cond: test (("and"i | "or"i) test)*
        test: "not"i test | "(" cond ")"
            | operand ("="|"<>"|"<"|">"|"<="|">="|"like"i) operand
            | operand "in"i "(" (select | operand ("," operand)*) ")"
        operand: NAME | INT | STR
        NAME: /[A-Za-z_][A-Za-z0-9_]*/ & ~/select|from|where|and|or|not|in|like|order|by|asc|desc|limit/i
        STR: /'[^'\n]*'/
        %import common.INT
        %import common.WS
        %ignore WS
    """,
    "keywords and comments": 'start: ("if" NAME | NAME) ";"\nNAME: /[a-z]+/\n%ignore /[ ]+|#[^\\n]*\\n/',
    "words": 'start: WORD+\nWORD: /[a-z]+/\n%ignore " "',
    "numbers with dots between": 'start: N ("." N)*\nN: /[0-9]+(\\.[0-9]+)?/',
    "counted": 'start: ("a" | "b" | "ab"){2,5} "c"~1 "d"~2 "e"{,3} "f"{2}',
    "the same text twice": 'start: "a"+ "a"',
    "capital and small letters": 'start: "select"i "S".."Z"~2 /k[^a-c]/i /./s',
    "and, not": "start: A\nA: /[a-z]+/ & ~/if|else/ & /.{2,4}/",
    "what is ignored at the end": 'start: "a" ("b")?\n%ignore " "',
    "palindrome": 'start: "a" start "a" | "b"',
    "nothing as well": 'start: "a"*',
    "escapes": 'start: "\\x41\\u00e9\\n\\"\\\\/" /\\/[^\\/]/ "é"',
    "choice": "start: " + " | ".join(f'"{word}{digit}"' for word in ("ab", "abc", "b") for digit in range(20)),
}
GBNF: Final[dict[str, str]] = {
    "arithmetic": r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t]*
""",
    "program": r"""
root ::= (declaration)*
declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"
dataType  ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= dataType identifier
statement ::=
    ( dataType identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" argList? ")" ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" ) |
    ( "for" "(" forInit ";" ws condition ";" ws forUpdate ")" "{" statement* "}" ) |
    ( "if" "(" condition ")" "{" statement* "}" ("else" "{" statement* "}")? ) |
    ( singleLineComment ) |
    ( multiLineComment )
forInit ::= dataType identifier ws "=" ws expression | identifier ws "=" ws expression
forUpdate ::= identifier ws "=" ws expression
condition ::= expression relationOperator expression
relationOperator ::= ("<=" | "<" | "==" | "!=" | ">=" | ">")
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | unaryTerm | funcCall | parenExpression
unaryTerm ::= "-" factor
funcCall ::= identifier "(" argList? ")"
parenExpression ::= "(" ws expression ws ")"
argList ::= expression ("," ws expression)*
number ::= [0-9]+
singleLineComment ::= "//" [^\n]* "\n"
multiLineComment ::= "/*" ( [^*] | ("*" [^/]) )* "*/"
ws ::= ([ \t\n]+)
""",
    "list": r"""
root ::= item+
# Excludes various line break characters
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
""",
    "chess": r"""
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move   ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
""",
    "json": r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
""",
}
GBNF["list of json"] = GBNF["json"].replace(
    "root   ::= object\n", 'root   ::= "[\\n" ws (value (",\\n" ws value)*)? "]"\n'
)
GBNF["english"] = r"""
root        ::= en-char+ ([ \t\n] en-char+)*
en-char     ::= letter | digit | punctuation
letter      ::= [a-zA-Z]
digit       ::= [0-9]
punctuation ::= [!"#$%&'()*+,-./:;<=>?@[\\\]^_`{|}~]
"""
GBNF["japanese"] = r"""
root        ::= jp-char+ ([ \t\n] jp-char+)*
jp-char     ::= hiragana | katakana | punctuation | cjk
hiragana    ::= [ぁ-ゟ]
katakana    ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk         ::= [一-鿿]
"""
ALIKE: Final = {**{f"lark, {name}": text for name, text in LARK.items()}, **{f"gbnf, {n}": t for n, t in GBNF.items()}}
# The grammar, the code of its refusal, and a word of the reason.
REFUSED: Final = (
    ('start: "a', "E616", ""),
    ('start: "a" start', "E615", "the rule start holds itself"),
    ('start: "a" | x\nx: "b" x', "E615", "the rule x holds itself"),
    ("start: /a/ | A\nA: /b/ & /c/", "E615", "the terminal A has no text"),
    ("start: /\\d+/", "E710", "category"),
    ("start: /a.b/m", "E710", "the flag m"),
    ("start: /é/i", "E710", "not ASCII"),
    ('start: %regex {"substring_words": "a b"}', "E768", "%regex"),
    ('start: %lark {\n start: "a"\n}', "E768", "%lark"),
    ("start: a\na[lazy]: /[a-z]+;/", "E768", "lazy"),
    ('start: a\na[capture]: "b"', "E768", "capture"),
    ("start: a\na[max_tokens=3]: /b+/", "E768", "max_tokens"),
    ("start: <[3]> // ::=", "E768", "special tokens"),
    ('%llguidance {"allow_initial_skip": true} // ::=\nstart: "a"', "E768", "%llguidance"),
    ('start: p::0\np::_: "a" %if is_ones(_) | "b" p::set_bit(0)', "E768", "::"),
    ('start: WORD "x"\nWORD: /[a-z]+/', "E771", "the terminal WORD takes what must follow it"),
    ('start: ("if" NAME | NAME) ";"\nNAME: /[a-z]+/', "E771", "'if' takes"),
    ('start: x | y\nx: "a"\ny: "a" "b"\n%ignore " "', "E771", "may end a text"),
    ('start: "a" " " "b"\n%ignore " "', "E771", "has a text that %ignore names"),
    ('start: /a?/ "b"\n%ignore " "', "E771", "may begin a text"),
    ('start: x | y\nx: "<" "=" "1"\ny: ("<" | "<=") z\nz: "2"', "E771", ""),
    ("start: /[ab]*a[ab]{40}/", "E711", "65,536"),
)
# llama.cpp's own grammar of sums: its blanks hold the end of a line, which the longest match then takes.
GREEDY: Final = GBNF["arithmetic"].replace(r"[ \t]*", r"[ \t\n]*")
