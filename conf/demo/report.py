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
    say("answer: time the engine took; known: until the selector had the new "
        "blocks", "dim")
    say()
    say(f"{'':23}{'':8}{'cached tokens':>18}", "bold")
    say(f"{'turn':>4}  {'user':<8}{'prompt':>7}  {'worker':>6}"
        f"{'predicted':>11}{'real':>7}   {'':<{BAR + 2}}{'':>6}"
        f"{'answer':>9}{'known':>9}", "bold")


def table_row(row):
    cached = paint(bar(row.real, row.prompt), "green")
    line = (f"{row.turn:>4}  {row.user:<8}{row.prompt:>7}  "
            + paint(f"{row.worker:>6}", row.worker)
            + f"{row.predicted:>11}{row.real:>7}   {cached}"
            f"{percent(row.real, row.prompt):>6}"
            f"{1000 * row.answer:>6.0f} ms{1000 * row.known:>6.1f} ms")
    if row.predicted != row.real:
        line += paint("  !", "red")
    say(line)


def fact(label, text):
    say(f"  {label:<28}{text}")


def summary(rows, round_robin, evicted):
    prompt = sum(row.prompt for row in rows)
    real = sum(row.real for row in rows)
    right = sum(row.predicted == row.real for row in rows)
    workers = sorted({row.worker for row in rows})
    turns = ", ".join(
        f"{worker}: {sum(row.worker == worker for row in rows)}"
        for worker in workers)
    say()
    say("Summary", "bold")
    fact("predicted = real", f"{right} of {len(rows)} turns")
    fact("prompt tokens from cache",
         f"{real:,} of {prompt:,}  {bar(real, prompt)} "
         f"{percent(real, prompt)}")
    fact("round robin, same trace",
         f"{round_robin:,} of {prompt:,}  {bar(round_robin, prompt)} "
         f"{percent(round_robin, prompt)}")
    fact("prompt tokens to compute",
         f"{prompt - real:,} (round robin {prompt - round_robin:,})")
    fact("turns of each worker", turns)
    fact("blocks evicted", f"{evicted:,}")
    slowest = max(row.known for row in rows)
    fact("events known after", f"{1000 * slowest:.1f} ms at most")


def short(path):
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def hints(url, prompt_file, routes, stop):
    say()
    say("The selector and the engines go on running.  Try:", "bold")
    for method, path in routes:
        body = f"--json @{short(prompt_file)} " if method == "POST" else ""
        say(f"  curl -s {body}{url}{path}")
    say(f"End everything with: {stop}")
