"""A deterministic trace: several users talk, turn by turn, to assistants.

Every prompt is the assistant's system prompt, the user's conversation so far
and a new question; users share the assistants in turn.  Within a round each user asks once, in an order of its own.
Questions depend on seed, user and turn alone, never on who answered.
"""

import random

USERS = ("ana", "ben", "chi", "dan", "eve", "fay", "gus", "hal")
ASSISTANTS = 3
VOCABULARY = range(1000, 150000)
SYSTEM_TOKENS = 136
QUESTION_TOKENS = (40, 140)
ANSWER_TOKENS = (30, 110)


def draw(seed, *what):
    return random.Random("/".join(map(str, (seed, *what))))


def tokens_of(rng, bounds):
    return rng.choices(VOCABULARY, k=rng.randint(*bounds))


class Turn:
    """One question.  The answer must be given before the next turn."""

    def __init__(self, number, user, history, rng):
        self.number = number
        self.user = user
        self._history = history
        history += tokens_of(rng, QUESTION_TOKENS)
        self.prompt = list(history)
        self.answer_tokens = rng.randint(*ANSWER_TOKENS)

    def answer(self, tokens):
        self._history += tokens


def play(seed=1, users=6, rounds=5):
    systems = [draw(seed, "system", i).choices(VOCABULARY, k=SYSTEM_TOKENS)
               for i in range(ASSISTANTS)]
    names = [USERS[i] if i < len(USERS) else f"user{i + 1}"
             for i in range(users)]
    history = {name: list(systems[i % ASSISTANTS])
               for i, name in enumerate(names)}
    number = 0
    for turn in range(rounds):
        order = list(names)
        draw(seed, "order", turn).shuffle(order)
        for name in order:
            number += 1
            yield Turn(number, name, history[name], draw(seed, name, turn))
