"""What the user sees: at most 100 columns, colours only on a terminal."""

import os
import sys
import textwrap

COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32",
           1: "36", 2: "33", 3: "35"}
BAR = 20


def paint(text, colour):
    code = COLOURS.get(colour)
    if code is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{code}m{text}\033[0m"


def say(text="", colour=None):
    print(paint(text, colour), flush=True)


def failure(sentence):
    say()
    say(textwrap.fill(sentence, 98, break_on_hyphens=False), "red")


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


def bar(part, whole):
    full = round(BAR * part / whole)
    return "[" + "#" * full + "." * (BAR - full) + "]"


def table_head():
    say("predicted: when the worker was chosen; real: when it began; first: "
        "time to the first token;", "dim")
    say("active: requests on the fleet then (GET /loads)", "dim")
    say()
    say(f"{'':23}{'':8}{'cached tokens':>18}", "bold")
    say(f"{'turn':>4}  {'user':<8}{'prompt':>7}  {'worker':>6}"
        f"{'predicted':>11}{'real':>7}   {'':<{BAR + 2}}{'':>6}"
        f"{'first':>9}{'active':>8}", "bold")


def part(title):
    say(title, "bold")


def table_row(row):
    cached = paint(bar(row.real, row.prompt), "green")
    line = (f"{row.turn:>4}  {row.user:<8}{row.prompt:>7}  "
            + paint(f"{row.worker:>6}", row.worker)
            + f"{row.predicted:>11}{row.real:>7}   {cached}"
            f"{percent(row.real, row.prompt):>6}"
            f"{1000 * row.first:>6.0f} ms{row.active:>8}")
    if row.predicted != row.real:
        line += paint("  !", "red") if row.alone else paint("  *", "dim")
    say(line)


def fact(label, text):
    say(f"  {label:<28}{text}")


def prediction(rows, alone):
    rows = [row for row in rows if row.alone == alone]
    right = sum(row.predicted == row.real for row in rows)
    return f"{right} of {len(rows)} turns"


def summary(rows, known, round_robin, evicted):
    prompt = sum(row.prompt for row in rows)
    real = sum(row.real for row in rows)
    workers = sorted({row.worker for row in rows})
    turns = ", ".join(
        f"{worker}: {sum(row.worker == worker for row in rows)}"
        for worker in workers)
    say()
    say("Summary", "bold")
    if known:
        fact("predicted = real", prediction(rows, True))
    fact("the same, users at once", prediction(rows, False))
    fact("prompt tokens from cache",
         f"{real:,} of {prompt:,}  {bar(real, prompt)} "
         f"{percent(real, prompt)}")
    fact("round robin, same prompts",
         f"{round_robin:,} of {prompt:,}  {bar(round_robin, prompt)} "
         f"{percent(round_robin, prompt)}")
    fact("prompt tokens to compute",
         f"{prompt - real:,} (round robin {prompt - round_robin:,})")
    fact("turns of each worker", turns)
    fact("blocks evicted", f"{evicted:,}")
    if known:
        fact("events known after", f"{1000 * max(known):.1f} ms at most")
    fact("active requests",
         f"{max(row.active for row in rows)} at most, and 0 now: the books "
         f"are empty")


def short(path):
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def hints(url, routes, files, stop):
    say()
    say("The router and the engines go on running.  Try:", "bold")
    for method, path in routes:
        flags = "-sNi" if path == "/v1/completions" else "-s"
        body = f"--json @{short(files[path])} " if path in files else ""
        say(f"  curl {flags} {body}{url}{path}")
    say(f"End everything with: {stop}")
