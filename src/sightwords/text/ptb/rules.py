"""What the PTB tokeniser counts as one token, and what it prints for it.

These are the rules of the Stanford PTB tokeniser as CoreNLP 3.4.1 has them with the options
`-preserveLines -lowerCase`, the form in which the COCO caption tools run it. Order matters twice:
the rule that matches most characters, its context included, wins; of equals, the first.

Patterns are written in the notation of `patterns.py`: a bare letter stands for both cases,
a letter in brackets only for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightwords.text.ptb.actions import (
    Action,
    ampersand,
    bracketed,
    closing,
    currency,
    cut,
    dashes,
    drop,
    end_after_initials,
    fraction,
    joined,
    joined_and_bracketed,
    keep,
    keep_and_end,
    opening,
    printed,
    without_soft_hyphens,
)
from sightwords.text.ptb.characters import CAPITALS, DIGITS, LETTERS, WORD_MARKS
from sightwords.text.ptb.patterns import OneOf, Pattern, parse


@dataclass(frozen=True, slots=True)
class Rule:
    """A token's pattern, what must follow it (not part of it), and what becomes of it."""

    pattern: str
    action: Action
    before: str = ""
    """The context: a pattern that must follow; the token is then the longest that leaves it."""


# Parts of patterns; each may use those above it

PARTS = {
    "space": r"[ \t\u00A0\u2000-\u200A\u3000]",
    "newline": r"\r|\r?\n|[\u2028\u2029\u000B\u000C\u0085]",
    "blank": "{space}|{newline}",
    # Markup that looks like a tag, a comment or a processing instruction.
    "tagname": r"[A-Za-z][A-Za-z0-9_:.\-]*",
    "attribute": r"""[ ]+{tagname}([ ]*=[ ]*('[^']*'|"[^"]*"))?""",
    "tag": r"<([!?][A-Za-z\-][^>\r\n]*|{tagname}{attribute}*[ ]*/?|/{tagname})[ ]*>",
    "sentence_end": "{blank}({blank}|{capital}|{tag})",
    # Words.
    "accented": "&[aeiouAEIOU](acute|grave|uml);",
    "wordletter": "{letter}|{mark}|{accented}",
    "run": "{wordletter}({wordletter}|{digit})*",
    "word": "{run}([.!?]{run})*",
    "apostrophe": r"['\u0092\u2019]|&apos;",
    "apostrophish": r"{apostrophe}|[`\u0091\u2018\u201B]",
    "hyphen": r"[\-_\u058A\u2010\u2011]",
    "plain": "{letter}|{digit}",
    "elided": "([dDoOlL]{apostrophish}{plain})?{plain}+",  # d'Or, O'Neill, l'eau
    "hyphenated": "{elided}({hyphen}{elided})*",
    "clitic": "{apostrophe}([msdMSD]|re|ve|ll)",
    "not_clitic": "n{apostrophish}t",
    "before_not": r"[A-Za-z\u00AD]*[A-MO-Za-mo-z]\u00AD*",  # may not end in n: ca|n't
    "slashed_part": "[A-Za-z0-9]+(-[A-Za-z]+){0,2}",
    "slashed": r"{slashed_part}(\\?/{slashed_part}){1,2}",
    "us_pair": r"(Canada|Sino|Korean|EU|Japan|non)-U\.S|U\.S\.-(U\.K|U\.S\.S\.R)",
    "initials": r"[A-Za-z](\.[A-Za-z])*|{us_pair}",
    "two_initials": r"[A-Za-z](\.[A-Za-z])+|{us_pair}",
    "lettered": r"[A-Za-z0-9][A-Za-z0-9.,\u00AD]*(-([A-Za-z0-9\u00AD]+|{two_initials}\.))+",
    "vowel_apostrophe": "{letter}+[aeiouyAEIOUY]{apostrophish}[aeiouA-Z]{letter}*",
    "with_apostrophe": (
        "{apostrophe}(n{apostrophe}?|em|[2-9]0s|till?|cause)"
        "|([lLdDjJ]|Dunkin|somethin|ol){apostrophe}"
        "|[A-HJ-XZn]{apostrophish}{letter}{2}{letter}*"
        "|{vowel_apostrophe}|O{apostrophish}o"
        r"|cont'd\.?|'twas|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l"
    ),
    # Addresses on the net.
    "url": r"""https?://[^ \t\n\f\r"<>|(){}]+[^ \t\n\f\r"<>|.!?(){},\-]""",
    "url_path": r"""/[^ \t\n\f\r"<>|()]+[^ \t\n\f\r"<>|.!?(){},\-]""",
    # In the second form everything from the comma to the underscore is excluded too (capitals
    # and digits among it): a slip in the reference's set, which COCO scores inherit.
    "bare_url": (
        r"""(www\.([^ \t\n\f\r"<>|.!?(){},]+\.)+[a-zA-Z]{2,4}"""
        r"""|([^ \t\n\f\r"`'<>|.!?(){},-_$]+\.)+(com|net|org|edu))({url_path})?"""
    ),
    "host_part": r"""[^ \t\n\f\r"<>|(){}.\u00A0]+""",
    "email": (
        r"""(&lt;|<)?[a-zA-Z0-9][^ \t\n\f\r"<>|()\u00A0{}]*@({host_part}\.)*{host_part}(&gt;|>)?"""
    ),
    "file_ending": (
        "bat|bmp|c|class|cgi|cpp|dll|docx?|exe|gif|gz|h|html?|jar|java|jpe?g|mov|mp3|pdf|php|pl"
        "|png|ppt|ps|py|sql|tar|txt|wav|x|xml|zip"
    ),
    "filename": r"({wordletter}|{digit})+(\.({wordletter}|{digit})+)*\.({file_ending})",
    # Numbers.
    "number": r"[\-+]?({digit}+|{digit}*([.:,\u00AD\u066B\u066C]{digit}+)+)",
    "date": r"{digit}{1,2}[\-/]{digit}{1,2}[\-/]{digit}{2,4}",
    "fraction": r"({digit}{1,4}[\- \u00A0])?{digit}{1,4}(\\?/|\u2044){digit}{1,4}",
    "small_number": (
        r"[\u207A\u207B\u208A\u208B]?"
        r"([\u2070\u00B9\u00B2\u00B3\u2074-\u2079]+|[\u2080-\u2089]+)"
    ),
    "phone": (
        r"(\([0-9]{2,3}\)[ \u00A0]?|(\+\+?)?([0-9]{2,4}[\- \u00A0])?[0-9]{2,4}[\- \u00A0])"
        r"[0-9]{3,4}[\- \u00A0]?[0-9]{3,5}"
        r"|((\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5}"
    ),
    # Abbreviations that may end a sentence: when a capital follows, one ended.
    "month_or_day": "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thu|Thurs|Fri",
    "state": (
        "Ala|Ariz|[A]z|[A]rk|Calif|Colo|Conn|Ct|Dak|[D]el|Fla|Ga|[I]ll|Ind|Kans?|Ky|[L]a|[M]ass|Md"
        "|Mich|Minn|[M]iss|Mo|Mont|Neb|Nev|Okla|[O]re|[P]a|Penn|Tenn|[T]ex|Va|Vt|[W]ash|Wisc?|Wyo"
    ),
    "company": "Inc|Cos?|Corp|Pp?t[ye]s?|Ltd|Plc|Rt|Bancorp|Bhd|Assn|Univ|Intl|Sys",
    "ending_abbreviation": (
        r"({month_or_day}|{state}|{company}|tel|est|ext|sq|Jr|Sr|Bros|(Ed|Ph)\.D|Blvd|Rd|Esq|etc|al"
        r"|seq|Bldg)\."
    ),
    # Abbreviations that a name follows: never the end of a sentence.
    "title": (
        "Mr|Mrs|Ms|[M]iss|Drs?|Profs?|Sens?|Reps?|Attys?|Lt|Col|Gen|Messrs|Govs?|Adm|Rev|Maj|Sgt"
        "|Cpl|Pvt|Capt|Ste?|Ave|Pres|Lieut|Hon|Brig|Co?mdr|Pfc|Spc|Supts?|Det|Mt|Ft|Adj|Adv|Asst"
        "|Assoc|Ens|Insp|Mlle|Mme|Msgr|Sfc"
    ),
    "leading_abbreviation": (
        r"{title}|vs|Alex|Wm|Jos|Cie|a\.k\.a|cf|TREAS|Ph|{initials}|Invt|Elec|Natl|M[ft]g|Dept"
    ),
    "numbered_abbreviation": r"(ca|figs?|prop|nos?|art|bldg|pp|op)\.",
    # Words that begin a sentence often enough to end the one before.
    "sentence_start": (
        "[A]|[A](bout|ccording|dditionally|fter|n|s|t)|[B]ut|[E]arlier|[H](e|er|ere|owever)|[I](f|n|t)"
        r"|[L]ast|[M](any|ore|r\.|s\.)|[N]ow|[O](nce|ne|ther|ur)|[S](he|ince|o|ome|uch)"
        "|[T](hat|he|heir|hen|here|hese|hey|his)|[W](e|hen|hile|hat)|[Y](et|ou)"
    ),
    # Signs.
    "inner_stop": r"[,;:\u3001]",
    "quote": (
        r"{apostrophe}|''|[`\u2018\u2019\u201A\u201B\u201C\u201D\u0091\u0092\u0093\u0094\u201E\u201F"
        r"\u2039\u203A\u00AB\u00BB]{1,2}"
    ),
    "double_quote": '"|&quot;',
    "ellipsis": r"\.{3,5}|(\.[ \u00A0]){2,4}\.|[\u0085\u2026]",
    "smiley": r"[<>]?[:;=][\-o*']?[()DPdpO\\{@|\[\]]",
    # The first form is another slip kept for parity: "up to" where a set was meant.
    "face": (
        r"[\^x=~<>]\.\[\^x=[^<]*<>\]|[\-\^x=~<>']_[\-\^x=~<>']"
        r"|\([\-\^x=~<>'][_.]?[\-\^x=~<>']\)|\([\^x=~<>']-[\^x=~<>'`]\)"
    ),
    "treebank": (
        r"-(R|L)(R|C|S)B-|C\.D\.s|pro-|anti-|S(&|&amp;)P-500|S(&|&amp;)Ls|Cap{apostrophe}n"
        "|c{apostrophe}est"
    ),
    "symbol": (
        r"[+%&~\^|\\¦\u00A7¨\u00A9\u00AC\u00AE¯\u00B0-\u00BA\u00D7\u00F7\u0387\u05BE\u05C0\u05C3"
        r"\u05C6\u05F3\u05F4\u0600-\u0603\u0606-\u060A\u060C\u0614\u061B\u061E\u066A\u066D"
        r"\u0703-\u070D\u07F6-\u07F8\u0964\u0965\u0E4F\u1FBD\u2016\u2017\u2020-\u2023\u2030-\u2038"
        r"\u203B\u203E-\u2042\u2044\u207A-\u207F\u208A-\u208E\u2100-\u214F\u2190-\u2BFF\u3012\u30FB"
        r"\uFF01-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65]"
    ),
}

RULES = (
    Rule(r"c\+\+|[cCfF]#", keep),
    Rule("cannot|'twas", cut(3)),
    Rule("'tis|gonna|gotta|lemme|gimme|wanna", cut(2)),
    Rule("{tag}", joined),
    Rule(r"&(MD|mdash|ndash);|[\u0096\u0097\u2013-\u2015]", printed("--")),
    Rule("&amp;", ampersand),
    Rule("&(HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);", keep),
    Rule("{word}", without_soft_hyphens, before="{clitic}"),
    Rule("{before_not}", without_soft_hyphens, before="{not_clitic}"),
    Rule("{word}", without_soft_hyphens),
    Rule("{with_apostrophe}", keep),
    Rule("y{apostrophe}", keep, before="{letter}"),
    Rule("{url}|{bare_url}|{email}", keep),
    Rule("@[a-zA-Z_][a-zA-Z_0-9]*|#({wordletter})+", keep),
    Rule("{clitic}|{not_clitic}", closing, before="[^A-Za-z]"),
    Rule("{date}", keep),
    Rule("{number}", without_soft_hyphens),
    Rule("{small_number}", keep),
    Rule("{fraction}", joined),
    Rule(r"[\u00BC-\u00BE\u2153-\u215E]", fraction),
    Rule("{treebank}", ampersand),
    Rule(r"{slashed}|[A-Z]*\$|#", keep),
    Rule(r"[\u00A2-\u00A5\u0080\u20A0\u20AC\u060B\u0E3F\u20A4\uFFE0\uFFE1\uFFE5\uFFE6]", currency),
    Rule(
        r"({initials})\.", end_after_initials, before="({blank})+({sentence_start}|{tag})({blank})"
    ),
    Rule("{numbered_abbreviation}", keep, before="({blank})?{digit}"),
    Rule(r"(pt[eyEY]|co)\.", keep, before="{space}(ltd|lim)"),
    Rule("{ending_abbreviation}", keep_and_end, before="{sentence_end}"),
    Rule("{ending_abbreviation}", keep, before="{any}{any}"),
    Rule("{ending_abbreviation}", keep_and_end),
    Rule(r"({leading_abbreviation})\.", keep),
    Rule("{leading_abbreviation}", keep, before="{space}"),
    Rule("{initials}", keep, before="{blank}"),
    Rule("({apostrophe})[0-9][0-9]", keep, before="{blank}"),
    Rule("{filename}", keep, before="{blank}|[.?!,]"),
    Rule(r"{word}\.", without_soft_hyphens, before="{inner_stop}"),
    Rule("{phone}", joined_and_bracketed),
    Rule("{double_quote}", opening, before="[A-Za-z0-9$]"),
    Rule("{double_quote}", closing),
    Rule(r"\u007F", drop),
    Rule("<|&lt;", printed("<")),
    Rule(">|&gt;", printed(">")),
    Rule("{smiley}", bracketed, before="[^A-Za-z0-9]"),
    Rule("{face}", bracketed),
    Rule(r"\{", printed("-LCB-")),
    Rule(r"\}", printed("-RCB-")),
    Rule(r"\[", printed("-LSB-")),
    Rule(r"\]", printed("-RSB-")),
    Rule(r"\(", printed("-LRB-")),
    Rule(r"\)", printed("-RRB-")),
    Rule("-+", dashes),
    Rule("{ellipsis}", printed("...")),
    Rule(r"@+|#+|_+|\*+|(\\\*){1,3}|{inner_stop}|[?!]+", keep),
    Rule(r"[.¡¿\u037E\u0589\u061F\u06D4\u0700-\u0702\u07FA\u3002]|=|/", keep),
    Rule(r"{lettered}\.", without_soft_hyphens, before="{inner_stop}"),
    Rule("{lettered}", without_soft_hyphens),
    Rule(r"{hyphenated}\.", keep, before="{inner_stop}"),
    Rule("{hyphenated}", keep),
    Rule(r"[A-Z]+(([+&]|&amp;)[A-Z]+)+\.", ampersand, before="{inner_stop}"),
    Rule("[A-Z]+(([+&]|&amp;)[A-Z]+)+", ampersand),
    Rule("'", opening, before=r"[A-Za-z][^ \t\n\r\u00A0]"),
    Rule("{clitic}|{not_clitic}|{quote}", closing),
    Rule("<<|>>|{symbol}", keep),
    Rule(r"\u0000|({space})+|[\u200B\u200E-\u200F\uFEFF]|{newline}|&nbsp;", drop),
    Rule("{any}", drop),
)


def named_patterns() -> dict[str, Pattern]:
    """The parts, parsed, by name."""
    names: dict[str, Pattern] = {
        "letter": OneOf(LETTERS),
        "mark": OneOf(WORD_MARKS),
        "digit": OneOf(DIGITS),
        "capital": OneOf(CAPITALS),
        "any": OneOf(((0, 0xFFFF),)),
    }
    for name, text in PARTS.items():
        names[name] = parse(text, names)
    return names
